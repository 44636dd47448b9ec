//! Two hundred secrets of a person, each its own, wherever agents, tools, shells and people keep them: looked for in what
//! is sent, in what arrives, in both journals and logs, and in what the command prints. None is found but those in files
//! that the person let travel by name, and these only there.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use cede_agent::adapter::Surroundings;
use cede_agent::adapter::recorded::{Story, plant};
use cede_tests::devices::trees::{dirty, git};
use cede_tests::devices::{Device, Devices, pair_with, request, show_words, wait_until};
use cede_wire::control::{Answer, Command, MoveRequest, PairingEvent, ReplyBody};
use cede_wire::session::{AgentKind, SessionKey};

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");
/// Begins every planted secret; nothing else has it.
const MARK: &str = "qZ7pLaNtEd0c9f";
const AGENTS: [AgentKind; 2] = [AgentKind::Codex, AgentKind::ClaudeCode];

/// Plants, and counts.
struct Planter {
    planted: u32,
}

impl Planter {
    fn secret(&mut self) -> String {
        self.planted += 1;
        format!("{MARK}{:04}x", self.planted)
    }

    /// Adds a text to a file, with a secret for each `SECRET` in it.
    fn write(&mut self, path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut parts = text.split("SECRET");
        let first = parts.next().unwrap().to_owned();
        let filled = parts.fold(first, |text, part| text + &self.secret() + part);
        let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
        file.write_all(filled.as_bytes()).unwrap();
    }
}

/// Files of a home, and what stands in them.
const HOME: [(&str, &str); 62] = [
    (
        ".codex/auth.json",
        r#"{"OPENAI_API_KEY":"sk-SECRET","tokens":{"id_token":"SECRET","access_token":"SECRET","refresh_token":"SECRET"}}"#,
    ),
    (
        ".codex/config.toml",
        "\n[model_providers.own]\nname = \"own\"\nexperimental_bearer_token = \"SECRET\"\nhttp_headers = { \"X-Key\" = \"SECRET\" }\n[mcp_servers.x]\ncommand = \"x\"\nenv = { TOKEN = \"SECRET\" }\n",
    ),
    (".codex/.env", "OPENAI_API_KEY=SECRET\nAZURE_OPENAI_API_KEY=SECRET\n"),
    (".codex/history.jsonl", "{\"text\":\"my key is SECRET\"}\n"),
    (".codex/log/codex-tui.log", "Authorization: Bearer SECRET\n"),
    (
        ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-01a227f1-9ddb-7bc3-bf83-8a6b9c83d0aa.jsonl",
        "{\"type\":\"session_meta\",\"payload\":{\"id\":\"01a227f1-9ddb-7bc3-bf83-8a6b9c83d0aa\",\"cwd\":\"/other\"}}\n{\"type\":\"event_msg\",\"payload\":{\"type\":\"user_message\",\"message\":\"another task\"}}\n{\"type\":\"event_msg\",\"payload\":{\"type\":\"user_message\",\"message\":\"SECRET\"}}\n",
    ),
    (".codex/memories/notes.md", "SECRET\n"),
    (
        ".claude/.credentials.json",
        r#"{"claudeAiOauth":{"accessToken":"SECRET","refreshToken":"SECRET"},"mcpOAuth":{"x":{"accessToken":"SECRET"}}}"#,
    ),
    (
        ".claude/settings.json",
        r#"{"env":{"ANTHROPIC_API_KEY":"SECRET","AWS_BEARER_TOKEN_BEDROCK":"SECRET"},"apiKeyHelper":"echo SECRET"}"#,
    ),
    (".claude/settings.local.json", r#"{"env":{"ANTHROPIC_AUTH_TOKEN":"SECRET"}}"#),
    (
        ".claude.json",
        r#"{"primaryApiKey":"SECRET","oauthAccount":{"token":"SECRET"},"mcpServers":{"x":{"env":{"TOKEN":"SECRET"},"headers":{"Authorization":"Bearer SECRET"}}}}"#,
    ),
    (".claude/shell-snapshots/snapshot-bash-1.sh", "export OPENAI_API_KEY=SECRET\nexport GITHUB_TOKEN=SECRET\n"),
    (".claude/history.jsonl", "{\"display\":\"use SECRET\"}\n"),
    (".claude/debug/latest.txt", "x-api-key: SECRET\n"),
    (".claude/statsig/cache.json", "{\"key\":\"SECRET\"}"),
    (
        ".claude/projects/-other/11111111-3c1d-4a2e-9f43-6f1d2c7a9e10.jsonl",
        "{\"type\":\"user\",\"sessionId\":\"11111111-3c1d-4a2e-9f43-6f1d2c7a9e10\",\"message\":{\"content\":\"another task\"}}\n{\"type\":\"user\",\"sessionId\":\"11111111-3c1d-4a2e-9f43-6f1d2c7a9e10\",\"message\":{\"content\":\"SECRET\"}}\n",
    ),
    (".claude/file-history/x/1", "SECRET\n"),
    (
        ".local/share/opencode/auth.json",
        r#"{"anthropic":{"type":"api","key":"SECRET"},"github-copilot":{"type":"oauth","refresh":"SECRET","access":"SECRET"}}"#,
    ),
    (".local/share/opencode/mcp-auth.json", r#"{"x":{"tokens":{"accessToken":"SECRET"}}}"#),
    (".local/share/opencode/log/dev.log", "apiKey=SECRET\n"),
    (
        ".config/opencode/opencode.json",
        r#"{"provider":{"x":{"options":{"apiKey":"SECRET"}}},"mcp":{"y":{"headers":{"Authorization":"SECRET"}}}}"#,
    ),
    (".gemini/oauth_creds.json", r#"{"access_token":"SECRET","refresh_token":"SECRET"}"#),
    (".gemini/.env", "GEMINI_API_KEY=SECRET\n"),
    (".git-credentials", "https://ada:SECRET@example.org\nhttps://SECRET@example.com\n"),
    (
        ".gitconfig",
        "[http]\n\textraHeader = Authorization: Basic SECRET\n[github]\n\ttoken = SECRET\n[url \"https://ada:SECRET@example.org/\"]\n\tinsteadOf = x:\n",
    ),
    (".config/git/credentials", "https://ada:SECRET@example.org\n"),
    (".netrc", "machine example.org login ada password SECRET\nmachine example.com login bob password SECRET\n"),
    (".ssh/id_ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\nSECRET\n-----END OPENSSH PRIVATE KEY-----\n"),
    (".ssh/id_rsa", "SECRET\n"),
    (".ssh/config", "# SECRET\n"),
    (".gnupg/private-keys-v1.d/a.key", "SECRET\n"),
    (
        ".aws/credentials",
        "[default]\naws_access_key_id = SECRET\naws_secret_access_key = SECRET\naws_session_token = SECRET\n",
    ),
    (".aws/sso/cache/a.json", r#"{"accessToken":"SECRET"}"#),
    (".azure/msal_token_cache.json", "SECRET"),
    (".azure/accessTokens.json", r#"[{"accessToken":"SECRET"}]"#),
    (".config/gcloud/application_default_credentials.json", r#"{"client_secret":"SECRET","refresh_token":"SECRET"}"#),
    (".config/gh/hosts.yml", "github.com:\n    oauth_token: SECRET\n"),
    (".config/glab-cli/config.yml", "token: SECRET\n"),
    (".config/hub", "oauth_token: SECRET\n"),
    (".docker/config.json", r#"{"auths":{"x":{"auth":"SECRET","identitytoken":"SECRET"}}}"#),
    (".kube/config", "token: SECRET\nclient-key-data: SECRET\n"),
    (".npmrc", "//registry.example.org/:_authToken=SECRET\n_password=SECRET\n"),
    (".yarnrc.yml", "npmAuthToken: SECRET\n"),
    (".pypirc", "[pypi]\npassword = SECRET\n"),
    (".cargo/credentials.toml", "[registry]\ntoken = \"SECRET\"\n"),
    (".gem/credentials", ":rubygems_api_key: SECRET\n"),
    (".m2/settings.xml", "<password>SECRET</password>"),
    (".gradle/gradle.properties", "signing.password=SECRET\n"),
    (".pgpass", "h:5432:d:u:SECRET\n"),
    (".my.cnf", "[client]\npassword=SECRET\n"),
    (".vault-token", "SECRET"),
    (".terraform.d/credentials.tfrc.json", r#"{"credentials":{"x":{"token":"SECRET"}}}"#),
    (".config/rclone/rclone.conf", "pass = SECRET\n"),
    (".config/sops/age/keys.txt", "AGE-SECRET-KEY-SECRET\n"),
    (".local/share/keyrings/login.keyring", "SECRET"),
    (".password-store/x.gpg", "SECRET"),
    (".bash_history", "export TOKEN=SECRET\ncurl -H 'Authorization: Bearer SECRET' x\n"),
    (".zsh_history", ": 1:0;export KEY=SECRET\n"),
    (".bashrc", "export OPENAI_API_KEY=SECRET\n"),
    (".profile", "export ANTHROPIC_API_KEY=SECRET\n"),
    (".config/environment.d/keys.conf", "KEY=SECRET\n"),
    (".envrc", "export X=SECRET\n"),
];

/// Files of the working tree that git ignores: they stay, whatever they are called.
const IGNORED: [(&str, &str); 12] = [
    ("build/.env", "TOKEN=SECRET\nDB_PASSWORD=SECRET\n"),
    ("build/secrets/prod.env", "KEY=SECRET\n"),
    ("build/id_rsa", "SECRET\n"),
    ("build/server.pem", "SECRET\n"),
    ("build/plain.log", "SECRET\n"),
    ("build/terraform.tfstate", "{\"password\":\"SECRET\"}"),
    ("build/kubeconfig", "token: SECRET\n"),
    ("build/node_modules/x/.npmrc", "_authToken=SECRET\n"),
    ("build/auth.json", "{\"token\":\"SECRET\"}"),
    ("build/dump.sql", "insert into users values ('SECRET');\n"),
    ("build/.netrc", "password SECRET\n"),
    ("build/cache/.git-credentials", "https://a:SECRET@h\n"),
];

const VARIABLES: [&str; 54] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENCODE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "XAI_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "COHERE_API_KEY",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "REPLICATE_API_TOKEN",
    "CEREBRAS_API_KEY",
    "PERPLEXITY_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "GITLAB_TOKEN",
    "BITBUCKET_TOKEN",
    "NPM_TOKEN",
    "NODE_AUTH_TOKEN",
    "PYPI_TOKEN",
    "TWINE_PASSWORD",
    "CARGO_REGISTRY_TOKEN",
    "DOCKER_PASSWORD",
    "DIGITALOCEAN_ACCESS_TOKEN",
    "CLOUDFLARE_API_TOKEN",
    "HEROKU_API_KEY",
    "VERCEL_TOKEN",
    "NETLIFY_AUTH_TOKEN",
    "FLY_API_TOKEN",
    "STRIPE_SECRET_KEY",
    "TWILIO_AUTH_TOKEN",
    "SENDGRID_API_KEY",
    "SLACK_BOT_TOKEN",
    "DATABASE_URL",
    "PGPASSWORD",
    "MYSQL_PWD",
    "REDIS_URL",
    "SENTRY_AUTH_TOKEN",
    "VAULT_TOKEN",
    "SONAR_TOKEN",
    "SSH_PASSPHRASE",
    "MY_SECRET",
];

fn plant_all(device: &mut Device, tree: &Path) -> u32 {
    let mut planter = Planter { planted: 0 };
    let home = device.home.clone();
    for (file, text) in HOME {
        planter.write(&home.join(file), text);
    }
    for (file, text) in IGNORED {
        planter.write(&tree.join(file), text);
    }
    // In names: of what is ignored, and of a session of another directory.
    for _ in 0..8 {
        let name = format!("build/{}.txt", planter.secret());
        planter.write(&tree.join(name), "SECRET\n");
    }
    git(tree, &["remote", "add", "origin", &format!("https://ada:{}@example.org/x.git", planter.secret())]);
    git(tree, &["remote", "add", "other", &format!("https://{}@example.org/y.git", planter.secret())]);
    for key in [
        "http.extraheader",
        "http.https://example.org.proxy",
        "credential.https://example.org.username",
        "user.signingKey",
        "sendemail.smtpPass",
        "core.sshCommand",
        "alias.push-it",
        "remote.origin.proxy",
        "url.https://x.insteadOf",
        "my.token",
        "lfs.x.access",
        "github.oauth-token",
    ] {
        git(tree, &["config", key, &planter.secret()]);
    }
    for file in [
        ".git/config.bak",
        ".git/COMMIT_EDITMSG",
        ".git/description",
        ".git/hooks/pre-push",
        ".git/hooks/post-commit",
        ".git/info/notes",
        ".git/credentials",
        ".git/FETCH_HEAD",
    ] {
        planter.write(&tree.join(file), "# SECRET\n");
    }
    for name in VARIABLES {
        let value = planter.secret();
        device.variables.push((name.into(), value.into()));
    }
    planter.planted
}

/// The spellings of the mark that a program might write: plain, in hexadecimal digits, and in the three places of base64.
fn spellings() -> Vec<Vec<u8>> {
    let hex: String = MARK.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut all = vec![MARK.as_bytes().to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes()];
    all.extend((0..3).map(|before| {
        let text = base64(&[&b"aa"[..before], MARK.as_bytes()].concat());
        // Only the letters that the mark alone decides.
        text[before.div_ceil(3) * 4..text.len() - 4].to_vec()
    }));
    all.push(MARK.bytes().rev().collect());
    all
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        [18, 12, 6, 0].map(|shift| LETTERS[(bits >> shift & 63) as usize])
    };
    bytes.chunks(3).flat_map(group).collect()
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    let first = text[0];
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == first) {
        if rest[at..].starts_with(text) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// Files below a directory that hold one of these, in their bytes or in their names.
fn files_with(directory: &Path, texts: &[Vec<u8>]) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap().flatten() {
            let (kind, path) = (entry.file_type().unwrap(), entry.path());
            let name = entry.file_name().as_encoded_bytes().to_vec();
            let link = std::fs::read_link(&path).map(|link| link.as_os_str().as_encoded_bytes().to_vec());
            let bytes =
                if kind.is_file() { std::fs::read(&path).unwrap_or_default() } else { link.unwrap_or_default() };
            if texts.iter().any(|text| holds(&name, text) || holds(&bytes, text)) {
                found.push(path.clone());
            }
            if kind.is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

fn nowhere(directory: &Path, texts: &[Vec<u8>], what: &str) {
    assert_eq!(files_with(directory, texts), [""; 0].map(PathBuf::from), "{what}");
}

/// What a person who mistypes, and a program that does not know the protocol, may put where it does not belong: nothing of
/// it is kept or logged.
fn blurt(device: &Device, planter: &mut Planter) {
    let mut stream = UnixStream::connect(device.socket()).unwrap();
    writeln!(stream, "{{\"schema\":\"cede.control/1\",\"command\":\"{}\"}}", planter.secret()).unwrap();
    let mut stream = UnixStream::connect(device.socket()).unwrap();
    writeln!(stream, "Authorization: Bearer {}", planter.secret()).unwrap();
    for words in [planter.secret(), format!("{0}-{0}-{0}-{0}", planter.secret())] {
        let refused = device.ask(pair_with(&words, "127.0.0.1:9")).unwrap_err();
        let said = format!("{refused:?}");
        assert!(!said.contains(MARK), "pairing words are repeated: {said}");
    }
}

/// Shows: T-10, S-9
#[test]
fn none_of_two_hundred_planted_secrets_is_found() {
    let mut devices = Devices::strangers(CEDE);
    let tree = devices.a.home.join("project");
    dirty(&tree);
    let around =
        Surroundings::plain(&devices.a.home, &devices.a.state().join("agents"), std::env::var_os("PATH").unwrap());
    let story = Story::example("mock", "mock-model");
    let natives = AGENTS.map(|agent| plant(agent, &around, &tree, [7; 16], &story).unwrap());
    let mut planter = Planter { planted: plant_all(&mut devices.a, &tree) };
    devices.a.kill();
    devices.a.start();
    blurt(&devices.a, &mut planter);
    let devices = devices.joined();
    let (a, b) = (&devices.a, &devices.b);
    b.say_yes_to("laptop");
    let texts = spellings();
    let place = b.cede_home.parent().unwrap();
    for (agent, native) in AGENTS.into_iter().zip(natives) {
        let id = SessionKey { agent, native }.id();
        let carried = MoveRequest { carry_only: true, ..request("server", id) };
        let planned = a.ask(Command::To(MoveRequest { dry_run: true, ..carried.clone() })).unwrap();
        assert!(!format!("{planned:?}").contains(MARK), "in the plan");
        a.move_with(carried).unwrap();
        nowhere(place, &texts, "in what arrived, or in the destination's journal, stages and log");
        let printed = a.typed(&["status"]);
        assert!(!holds(&[printed.stdout, printed.stderr].concat(), MARK.as_bytes()), "in what the command prints");
    }
    assert!(!files_with(&b.home, &[b"hello, everybody".to_vec()]).is_empty(), "the tree arrived");
    assert!(!files_with(place, &[b"read_line".to_vec()]).is_empty(), "the conversations arrived");
    nowhere(&a.state(), &texts, "in what the source keeps");
    assert!(!texts.iter().any(|text| holds(a.log().as_bytes(), text)), "in the source's log");
    for arguments in [&["status", "--json"][..], &["doctor"], &["ls"], &["to", "nobody"], &["no-such-verb"]] {
        let printed = a.typed(arguments);
        assert!(!holds(&[printed.stdout, printed.stderr].concat(), MARK.as_bytes()), "{arguments:?} prints one");
    }
    println!("planted secrets: 0 of {} found, in {} spellings", planter.planted, texts.len());
    assert!(planter.planted >= 200, "{}", planter.planted);
}

/// What looks like a secret and is not ignored is named before it goes, goes only after a yes to just that, and is then in
/// that file and nowhere else.
/// Shows: T-10
#[test]
fn secret_that_was_approved_by_name_is_in_its_file_only() {
    let devices = Devices::friends(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let tree = a.home.join("project");
    dirty(&tree);
    let mut planter = Planter { planted: 0 };
    planter.write(&tree.join(".env"), "TOKEN=SECRET\n");
    planter.write(&tree.join("deploy/server.pem"), "SECRET\n");
    let id = a.adopt(&tree).id;
    let texts = spellings();
    let Answer::Plan(plan) = a.ask(Command::To(MoveRequest { dry_run: true, ..request("server", id) })).unwrap() else {
        panic!()
    };
    assert_eq!(plan.secret_looking, [".env", "deploy/server.pem"]);
    assert!(a.move_with(request("server", id)).is_err(), "nobody said yes to them");
    let place = b.cede_home.parent().unwrap();
    nowhere(place, &texts, "before the yes");
    a.move_with(MoveRequest { confirm_secrets: true, ..request("server", id) }).unwrap();
    let there = b.home.join("project");
    wait_until("what was staged is gone", || files_with(place, &texts).len() == 2);
    let mut found = files_with(place, &texts);
    found.sort();
    assert_eq!(found, [there.join(".env"), there.join("deploy/server.pem")]);
    assert!(!texts.iter().any(|text| holds(a.log().as_bytes(), text) || holds(b.log().as_bytes(), text)));
    nowhere(&a.state(), &texts, "in what the source keeps");
    println!("secrets approved by name: 2, each in its own file and nowhere else");
}

/// The daemon's own: its key stays in its file, the words of a pairing on the screen.
/// Shows: S-9, P-8
#[test]
fn key_and_words_are_where_they_belong_and_nowhere_else() {
    let devices = Devices::strangers(CEDE);
    let (a, b) = (&devices.a, &devices.b);
    let (mut shown, words) = show_words(a);
    let wrong = b.ask(pair_with("acorn-acorn-acorn-acorn", &a.address));
    assert!(wrong.is_err());
    drop(shown.line());
    let (mut shown, more) = show_words(a);
    let mut asked = b.open(pair_with(&more, &a.address)).unwrap();
    for answers in [&mut asked, &mut shown] {
        answers.until(|body| matches!(body, ReplyBody::Pairing(PairingEvent::Compare { .. })));
    }
    a.ask(Command::PairConfirm { accept: true }).unwrap();
    assert!(asked.end(&mut |_| {}).unwrap().is_ok());
    let key = std::fs::read(a.state().join("secrets/identity")).unwrap();
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let texts =
        [key, hex.into_bytes(), words.clone().into_bytes(), words.replace('-', " ").into_bytes(), more.into_bytes()];
    nowhere(b.cede_home.parent().unwrap(), &texts, "at the other device");
    assert_eq!(files_with(a.cede_home.parent().unwrap(), &texts), [a.state().join("secrets/identity")]);
}
