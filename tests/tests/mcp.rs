//! Two agents, each with a real `cede mcp` beside a real daemon, speaking JSON-RPC over its pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use cede_tests::devices::trees::{dirty, evidence};
use cede_tests::devices::{Device, Devices, wait_until};
use cede_tests::lab::Lab;
use cede_wire::control::{Answer, Command};
use serde_json::{Value, json};

const CEDE: &str = env!("CARGO_BIN_EXE_cede-under-test");

/// An agent of a device.
struct Agent {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Agent {
    fn of(device: &Device) -> Self {
        let mut command = device.command(&["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut agent = Self { child, input, output, asked: 0 };
        let client = json!({ "name": "an agent", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let begun = agent.ask("initialize", &params);
        assert_eq!(begun["result"]["serverInfo"]["name"], "cede", "{begun}");
        assert!(begun["result"]["instructions"].as_str().unwrap().contains("Nothing here approves anything"));
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params }));
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    /// Calls a tool: the facts, and whether it worked.
    fn call(&mut self, tool: &str, arguments: Value) -> (Value, bool) {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        println!("{tool} {arguments}\n{}", result["content"][0]["text"].as_str().unwrap_or_default());
        (result["structuredContent"].clone(), result["isError"] == false)
    }

    /// A call that works.
    fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let (facts, worked) = self.call(tool, arguments);
        assert!(worked, "{facts}");
        facts
    }

    /// Closes its input: it ends well, and has said nothing but the protocol.
    fn end(self) {
        let Self { mut child, input, mut output, .. } = self;
        drop(input);
        let until = Instant::now() + Duration::from_secs(10);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let (mut rest, mut talk) = (String::new(), String::new());
        output.read_to_string(&mut rest).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
        assert_eq!((status.code(), rest.as_str(), talk.as_str()), (Some(0), "", ""));
    }
}

fn peer<'a>(peers: &'a Value, name: &str) -> &'a Value {
    peers["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == name).unwrap()
}

/// Shows: L-10, L-11
#[test]
fn two_agents_tell_each_other_something_by_their_tools() {
    let devices = Devices::paired(CEDE);
    let (mut a, mut b) = (Agent::of(&devices.a), Agent::of(&devices.b));
    let peers = a.done("list_peers", json!({}));
    assert_eq!(peer(&peers, "server")["connected"], true, "{peers}");
    let told = a.done("send_message", json!({ "to": "server", "text": "is the build green?" }));
    assert_eq!(told["state"], "received", "{told}");
    let inbox = b.done("read_inbox", json!({}));
    let listed = &inbox["messages"][0];
    assert_eq!((&listed["id"], &listed["provenance"]["device"]), (&told["id"], &json!("laptop")), "{inbox}");
    let read = b.done("read_inbox", json!({ "id": told["id"] }));
    assert_eq!((&read["text"], &read["provenance"]["state"]), (&json!("is the build green?"), &json!("shown")));
    let answered = b.done("send_message", json!({ "in_reply_to": told["id"], "text": "it is" }));
    assert_eq!(answered["to"], "laptop", "{answered}");
    wait_until("the first one is dealt with", || {
        a.done("read_inbox", json!({ "sent": true, "all": true }))["messages"][0]["provenance"]["state"] == "acted"
    });
    a.done("mark_message", json!({ "id": answered["id"], "outcome": "acted" }));
    let (refused, worked) = a.call("send_message", json!({ "to": "server", "text": "x", "as": "the person" }));
    assert!(!worked && refused["error"]["why"].as_str().unwrap().contains("unknown field `as`"), "{refused}");
    let (refused, worked) = a.call("send_message", json!({ "to": "nobody", "text": "x" }));
    assert!(!worked && !refused["error"]["cure"].as_str().unwrap().is_empty(), "{refused}");
    a.end();
    b.end();
}

/// Shows: L-10
#[test]
fn agent_hands_a_directory_over_where_the_other_person_said_yes_and_not_else() {
    let mut devices = Devices::paired(CEDE);
    devices.b.say_yes_to("laptop");
    let tree = devices.a.home.join("project");
    dirty(&tree);
    let before = evidence(&tree);
    let session = devices.a.adopt(&tree).id;
    let mut a = Agent::of(&devices.a);
    std::fs::write(tree.join("id_rsa"), "-----BEGIN OPENSSH PRIVATE KEY-----\n").unwrap();
    let (refused, worked) = a.call("hand_over", json!({ "to": "server", "session": session }));
    assert!(!worked && refused["error"]["cure"].as_str().unwrap().contains("--yes-secrets"), "{refused}");
    std::fs::remove_file(tree.join("id_rsa")).unwrap();
    let moved = a.done("hand_over", json!({ "to": "server", "session": session }));
    assert_eq!((&moved["moved"], &moved["now_at"]), (&json!(true), &json!("server")), "{moved}");
    assert_eq!(evidence(&devices.b.home.join("project")), before);
    let sessions = a.done("list_sessions", json!({ "here": true }));
    assert_eq!(
        (&sessions["sessions"][0]["owner"], &sessions["sessions"][0]["here"]),
        (&json!("server"), &json!(false))
    );
    let (refused, worked) = a.call("hand_over", json!({ "to": "server", "session": session }));
    assert!(!worked && refused["error"]["now_at"] == "server", "{refused}");
    devices.a.stop();
    let (refused, worked) = a.call("list_peers", json!({}));
    assert!(!worked && refused["error"]["cure"] == "start it: cede up", "{refused}");
    a.end();
}

/// Shows: L-10
#[test]
fn agent_sends_a_file_and_sees_where_it_lies() {
    let devices = Devices::friends(CEDE);
    let file = devices.a.home.join("report.txt");
    std::fs::write(&file, "all is well\n").unwrap();
    let (mut a, mut b) = (Agent::of(&devices.a), Agent::of(&devices.b));
    let sent = a.done("send_file", json!({ "to": "server", "paths": [file], "note": "as promised" }));
    assert_eq!(sent["provenance"]["device"], "server", "{sent}");
    let state = |agent: &mut Agent| agent.done("list_transfers", json!({}))["transfers"][0].clone();
    wait_until("it is there", || state(&mut a)["provenance"]["state"] == "received");
    let came = state(&mut b);
    assert_eq!((&came["provenance"]["from_here"], &came["note"]), (&json!(false), &json!("as promised")), "{came}");
    a.end();
    b.end();
}

/// A real agent with the server in its configuration, as `docs/OPERATING.md` says, and a model that calls the tool.
#[test]
fn opencode_tells_the_other_device_something_by_the_tool() {
    let Some(lab) = Lab::up(env!("CARGO_BIN_EXE_lab-model")) else { return };
    let devices = Devices::paired(CEDE);
    let home = lab.furnish(&devices.a.home, &devices.a.state().join("agents"));
    let configuration = home.home.join(".config/opencode/opencode.json");
    let mut configured: Value = serde_json::from_str(&std::fs::read_to_string(&configuration).unwrap()).unwrap();
    let command = json!([CEDE, "--home", devices.a.cede_home, "mcp"]);
    configured["mcp"] = json!({ "cede": { "type": "local", "command": command } });
    std::fs::write(&configuration, configured.to_string()).unwrap();
    let prompt = "Tell the server\nTOOL cede_send_message {\"to\":\"server\",\"text\":\"the build is green\"}";
    let said = home.pipe(&home.workdir, &["opencode", "run"], prompt);
    assert!(said.success, "{}", said.text);
    let Ok(Answer::Inbox { letters, .. }) = devices.b.ask(Command::Inbox { sent: false, all: false }) else {
        panic!("no inbox")
    };
    assert_eq!(letters.len(), 1, "{letters:?}\n{}", said.text);
    assert_eq!((letters[0].from.as_str(), letters[0].begins.as_str()), ("laptop", "the build is green"));
    let heard = lab.requests().iter().any(|request| request.to_string().contains("received by server"));
    assert!(heard, "the model learns how far it came");
}
