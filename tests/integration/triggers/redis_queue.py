"""The trigger of docs/use/relay.md for a Redis list, as the page has it, where a triggerer can import it."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[3] / "docs" / "use" / "relay.md"
_BLOCKS = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)
[_TEXT] = [block for block in _BLOCKS if "class RedisListTrigger" in block]

exec(compile(_TEXT, str(_PAGE), "exec"))
