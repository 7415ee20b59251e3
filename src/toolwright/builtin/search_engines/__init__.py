"""Search engines: one small file for each, behind one protocol."""

from toolwright.builtin.search_engines.bing import bing as bing
from toolwright.builtin.search_engines.brave import brave as brave
from toolwright.builtin.search_engines.duckduckgo import duckduckgo as duckduckgo
from toolwright.builtin.search_engines.engine import Engine as Engine
from toolwright.builtin.search_engines.engine import Hit as Hit
from toolwright.builtin.search_engines.engine import Question as Question
from toolwright.builtin.search_engines.google import google as google
from toolwright.builtin.search_engines.searxng import searxng as searxng
from toolwright.builtin.search_engines.tavily import tavily as tavily
