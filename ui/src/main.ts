/** The bundle that Airflow's UI imports: it takes its apps from globalThis by the names in `react_apps`. */

import { InterlockPage } from "./views/InterlockPage";
import { WaitTab } from "./views/WaitTab";

// A name is the title in Airflow's UI too, so the apps have a readable one as well.
Object.assign(globalThis, {
  InterlockPage,
  InterlockWait: WaitTab,
  Interlock: InterlockPage,
  Wait: WaitTab,
});
