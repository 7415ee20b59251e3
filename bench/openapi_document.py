"""GitHub's OpenAPI document, and what is measured with it. It imports nothing, so that peers can use it."""

from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / ".openapi/node_modules/@octokit/openapi/generated/api.github.com.json"
LABEL = "import GitHub's OpenAPI document, until its tools are listed / json.loads of its text"
