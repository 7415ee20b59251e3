"""Search engines for `web_search`: one module each, all with the protocol `SearchEngine`."""

from surehand.builtin.web.search_engines.bing import bing as bing
from surehand.builtin.web.search_engines.brave import brave as brave
from surehand.builtin.web.search_engines.duckduckgo import duckduckgo as duckduckgo
from surehand.builtin.web.search_engines.engine import SearchEngine as SearchEngine
from surehand.builtin.web.search_engines.engine import SearchQuery as SearchQuery
from surehand.builtin.web.search_engines.engine import SearchResult as SearchResult
from surehand.builtin.web.search_engines.google import google as google
from surehand.builtin.web.search_engines.searxng import searxng as searxng
from surehand.builtin.web.search_engines.tavily import tavily as tavily
