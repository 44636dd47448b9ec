//! Programs that embed the parts of `cede` without its daemon. Each is a file in `src/bin/`.
