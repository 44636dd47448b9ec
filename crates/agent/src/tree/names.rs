//! What a name says about a file: a secret, or configuration that some tool runs without being asked.

/// Names that secrets are kept under, lower case; `*` at an end stands for anything.
const SECRETS: &[&str] = &[
    ".env*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.kdb",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "id_xmss*",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    ".dockerconfigjson",
    "credentials*",
    ".credentials*",
    "secrets.*",
    ".secrets*",
    "*.ovpn",
    "*.tfvars",
    "*.tfstate",
    "service-account*.json",
    "service_account*.json",
    ".vault-token",
    ".terraformrc",
    "auth.json",
    "token.json",
    ".token",
    "*.asc",
    "*.gpg",
    "kubeconfig*",
];

/// Directories that secrets are kept in.
const SECRET_DIRECTORIES: &[&str] = &[".aws", ".kube", ".ssh", ".gnupg", ".azure", ".gcloud", ".docker", ".secrets"];

/// Names that only look like secrets.
const EXAMPLES: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist", ".envrc.example"];

/// Files that tools run or obey without being asked, anywhere in a tree, lower case.
const CODE: &[&str] = &[
    ".mcp.json",
    "claude.md",
    "claude.local.md",
    "agents.md",
    "agents.override.md",
    "gemini.md",
    "opencode.json",
    "opencode.jsonc",
    ".cursorrules",
    ".windsurfrules",
    ".envrc",
    ".env.vault",
    "makefile",
    "gnumakefile",
    "*.mk",
    "justfile",
    ".justfile",
    "taskfile.yml",
    "taskfile.yaml",
    "rakefile",
    "package.json",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "pnpmfile.js",
    "build.rs",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "gradlew",
    "mvnw",
    "cmakelists.txt",
    "configure",
    "setup.py",
    "pyproject.toml",
    "conftest.py",
    "sitecustomize.py",
    "noxfile.py",
    "tox.ini",
    ".pre-commit-config.yaml",
    ".pre-commit-hooks.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    ".lintstagedrc*",
    ".huskyrc*",
    ".gitattributes",
    ".gitmodules",
    ".devcontainer.json",
    "devcontainer.json",
    ".tool-versions",
    ".mise.toml",
    "mise.toml",
    "flake.nix",
    "shell.nix",
    "default.nix",
    ".lvimrc",
    ".exrc",
    ".nvim.lua",
    ".vimrc",
    ".gdbinit",
    ".lldbinit",
    ".aider.conf.yml",
    "rust-toolchain.toml",
    "rust-toolchain",
    "*.code-workspace",
    "dockerfile",
    "compose.yaml",
    "docker-compose.yml",
    "vite.config.*",
    "webpack.config.*",
    "jest.config.*",
    "eslint.config.*",
    ".eslintrc.js",
    ".eslintrc.cjs",
    "babel.config.js",
    "gemfile",
    "build.zig",
    "build.sbt",
];

/// Directories whose every file counts as such.
const CODE_DIRECTORIES: &[&str] = &[
    ".claude",
    ".codex",
    ".opencode",
    ".gemini",
    ".cursor",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".githooks",
    ".cargo",
    ".github",
    ".gitlab",
    ".circleci",
    ".zed",
    ".continue",
    ".aider",
    ".direnv",
    ".mise",
    ".yarn",
];

/// True if a path looks like a secret.
pub(crate) fn is_secret_looking(path: &[u8]) -> bool {
    let (directories, name) = split(path);
    let below = directories.iter().any(|directory| SECRET_DIRECTORIES.contains(&directory.as_str()));
    below || (SECRETS.iter().any(|pattern| matches(pattern, &name)) && !EXAMPLES.contains(&name.as_str()))
}

/// True if a path is configuration that is code.
pub(crate) fn is_code(path: &[u8]) -> bool {
    let (directories, name) = split(path);
    let below = directories.iter().any(|directory| CODE_DIRECTORIES.contains(&directory.as_str()));
    below || CODE.iter().any(|pattern| matches(pattern, &name))
}

fn split(path: &[u8]) -> (Vec<String>, String) {
    let text = String::from_utf8_lossy(path).to_lowercase();
    let mut parts: Vec<_> = text.split('/').map(str::to_owned).collect();
    let name = parts.pop().unwrap_or_default();
    (parts, name)
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: T-10
    #[test]
    fn names_of_secrets_are_known() {
        for yes in [".env", "a/.env.local", "server.PEM", ".aws/config", "x/id_ed25519", "credentials.json", "v.kdbx"] {
            assert!(is_secret_looking(yes.as_bytes()), "{yes}");
        }
        for no in ["environment.ts", ".env.example", "src/main.rs", "idea.txt", "README.md"] {
            assert!(!is_secret_looking(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn names_of_configuration_that_runs_are_known() {
        for yes in [".claude/settings.json", "a/Makefile", "package.json", "build.rs", ".envrc", ".vscode/tasks.json"] {
            assert!(is_code(yes.as_bytes()), "{yes}");
        }
        for no in ["src/main.rs", "notes/claude", "rebuild.rs"] {
            assert!(!is_code(no.as_bytes()), "{no}");
        }
    }
}
