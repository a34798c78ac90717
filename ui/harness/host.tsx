/**
 * Stands in for Airflow's UI: hands over its libraries, and opens the built bundle at the routes of Airflow 3.3.
 *
 * `?theme=dark` chooses the theme. What is not a page of Interlock is an empty page with its address.
 */

import * as ChakraUI from "@chakra-ui/react";
import * as React from "react";
import * as ReactDOM from "react-dom";
import { createRoot } from "react-dom/client";
import * as ReactRouterDOM from "react-router-dom";
import * as ReactJSXRuntime from "react/jsx-runtime";

Object.assign(globalThis, { React, ReactDOM, ReactJSXRuntime, ReactRouterDOM, ChakraUI });

const { Box, ChakraProvider, createSystem, defaultConfig, defineConfig, Flex, Text } = ChakraUI;
const { createBrowserRouter, Link, Outlet, RouterProvider, useLocation, useParams } = ReactRouterDOM;

// Airflow's theme has these recipes and a palette `brand`; here it is Chakra's blue.
const BRAND = ["solid", "contrast", "fg", "muted", "subtle", "emphasized", "focusRing"];
const system = createSystem(
  defaultConfig,
  defineConfig({
    theme: {
      recipes: { button: { base: { colorPalette: "brand" }, defaultVariants: { size: "sm" } } },
      semanticTokens: {
        colors: {
          brand: Object.fromEntries(BRAND.map((name) => [name, { value: `{colors.blue.${name}}` }])),
        },
      },
    },
  }),
);

type App = React.ComponentType<Record<string, string | undefined>>;

/** As Airflow's ReactPlugin: one for each path. */
function Plugin({ name }: { name: string }): React.ReactElement {
  const { dagId, runId, taskId, mapIndex } = useParams();
  const { pathname } = useLocation();
  const Chosen = (globalThis as unknown as Record<string, App>)[name]!;
  return (
    <Box flexGrow={1} height="100%" m={-2} minHeight={0} key={pathname}>
      <Chosen dagId={dagId} runId={runId} taskId={taskId} mapIndex={mapIndex} />
    </Box>
  );
}

function Frame(): React.ReactElement {
  return (
    <Flex direction="column" height="100vh">
      <Box
        position="fixed"
        insetStart={0}
        top={0}
        bottom={0}
        width={14}
        bg="bg.muted"
        borderEndWidth={1}
        as="header"
      >
        <Text fontSize="xs" p={2}>
          <Link to="/">Air&shy;flow</Link>
        </Text>
      </Box>
      <Box as="main" display="flex" flex={1} flexDirection="column" minH={0} overflow="auto" p={3} ms={16}>
        <Outlet />
      </Box>
    </Flex>
  );
}

function Elsewhere(): React.ReactElement {
  return <Text data-elsewhere>{useLocation().pathname}</Text>;
}

const task = "dags/:dagId/runs/:runId/tasks/:taskId";
const router = createBrowserRouter(
  [
    {
      element: <Frame />,
      children: [
        { path: "plugin/interlock/*", element: <Plugin name="InterlockPage" /> },
        { path: `${task}/plugin/interlock-wait/*`, element: <Plugin name="InterlockWait" /> },
        {
          path: `${task}/mapped/:mapIndex/plugin/interlock-wait/*`,
          element: <Plugin name="InterlockWait" />,
        },
        { path: "*", element: <Elsewhere /> },
      ],
    },
  ],
  { basename: new URL(document.baseURI).pathname },
);

// A test goes from view to view without loading the libraries again.
Object.assign(globalThis, { goTo: (to: string): Promise<void> => router.navigate(to) });

const theme = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem("theme") ?? "light";
localStorage.setItem("theme", theme);
document.documentElement.classList.add(theme);
document.documentElement.style.colorScheme = theme;

await import(/* @vite-ignore */ new URL("www/interlock.js", document.baseURI).href);
createRoot(document.querySelector("#root")!).render(
  <React.StrictMode>
    <ChakraProvider value={system}>
      <RouterProvider router={router} />
    </ChakraProvider>
  </React.StrictMode>,
);
