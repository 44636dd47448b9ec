#!/bin/sh
# Installs the real agents for the laboratory tests, in exactly the versions and with the checksums of the lock
# file, into tests/lab/node_modules. Needs node and npm; without them the laboratory tests say "skipped".
set -eu
cd "$(dirname "$0")"
# Not `npm ci`: it insists on the optional packages of every other system, which not every registry has.
npm install --no-save --no-audit --no-fund
# The package of Claude Code's program brings no command of its own.
ln -sf ../@anthropic-ai/claude-code-linux-x64/claude node_modules/.bin/claude
