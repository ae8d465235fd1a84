//! Commands that need no cluster.

mod common;

use common::{Folder, said, text};

const APP: &str = "apiVersion: workerapp.dev/v1alpha1\nkind: WorkerApp\nmetadata: {name: shop}\nspec:\n  image: i\n  command: [c]\n  port: 3000\n  resources: {limits: {cpu: 1500m}}\n";

#[test]
fn plan_tells_the_workers_and_what_may_surprise() {
    let folder = Folder::new("plan");
    let file = folder.file("a.yaml", APP);
    let plan = text(&said(&["plan", &file]).stdout);
    assert!(
        plan.contains("2 per pod (CPU limit 1500m, rounded up → 2 workers)") && plan.contains("Warning"),
        "{plan}"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&said(&["plan", "-o", "json", &file]).stdout).unwrap();
    assert_eq!((&json[0]["workers"], &json[0]["warnings"][0]["reason"]), (&2.into(), &"Throttled".into()));
    assert_eq!(text(&said(&["plan", "-o", "name", "-f", &file]).stdout), "workerapp.workerapp.dev/shop\n");
}

#[test]
fn nothing_is_rendered_unless_all_of_it_is_valid() {
    let folder = Folder::new("render");
    let good = folder.file("good.yaml", APP);
    let bad = folder.file("bad.yaml", &APP.replace("port: 3000", "port: 0"));
    let output = said(&["render", &good, &bad]);
    assert!(output.stdout.is_empty() && output.status.code() == Some(1));
    assert!(text(&output.stderr).contains("spec.port: 0: must be at least 1"), "{}", text(&output.stderr));
    assert_eq!(text(&said(&["render", &good]).stdout).matches("\nkind: ").count(), 2);
}

#[test]
fn a_key_that_stands_twice_is_named() {
    let folder = Folder::new("twice");
    let file = folder.file("a.yaml", &format!("{APP}  port: 4000\n"));
    let told = text(&said(&["plan", &file]).stderr);
    assert!(told.contains("the key \"port\" stands twice") && told.contains("line 9"), "{told}");
}

#[test]
fn help_has_the_name_that_was_typed_and_completion_has_the_commands() {
    let help = text(&said(&["bench", "--help"]).stdout);
    assert!(
        help.contains("Usage: kubectl-workerapp bench") && help.contains("  kubectl-workerapp bench -A"),
        "{help}"
    );
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&said(&["completion", shell]).stdout);
        assert!(script.contains("doctor") && script.contains("kubectl-workerapp"), "{shell}");
    }
    assert_eq!(text(&said(&["__complete", "--", "rest"]).stdout), "restart\n:4\n");
}

#[test]
fn without_a_cluster_commands_that_need_one_say_how_to_name_it() {
    let output = said(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--kubeconfig"), "{}", text(&output.stderr));
}

#[test]
fn the_apps_of_the_migration_guide_can_be_planned() {
    let guide =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/migrating.md")).unwrap();
    let blocks = guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let folder = Folder::new("guide");
    // Parts of a spec stand for an app that has the rest, as the guide says.
    let rest = "  image: i\n  port: 3000\n";
    let mut planned = 0;
    for block in blocks {
        let app = match block.strip_prefix("spec:\n") {
            Some(part) => {
                let rest = if part.contains("  port:") { "  image: i\n" } else { rest };
                format!(
                    "apiVersion: workerapp.dev/v1alpha1\nkind: WorkerApp\nmetadata: {{name: shop}}\nspec:\n{rest}{part}"
                )
            }
            None if block.starts_with("apiVersion: workerapp.dev") => block.to_owned(),
            // A compose file.
            None => continue,
        };
        let output = said(&["plan", &folder.file("a.yaml", &app)]);
        assert!(output.status.success(), "{app}: {}", text(&output.stderr));
        planned += 1;
    }
    assert!(planned >= 6, "{planned}");
}
