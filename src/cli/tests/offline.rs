//! Commands that need no cluster.

mod common;

use common::{Folder, program, said, text};

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
fn the_samples_are_planned_without_a_warning_and_cpus_are_called_so() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
    for name in ["next", "next-pm2", "next-watt", "next-workers"] {
        let output = said(&["plan", &format!("{samples}/{name}.yaml")]);
        let plan = text(&output.stdout);
        assert!(output.status.success() && !plan.contains("Warning"), "{plan}{}", text(&output.stderr));
        assert!(plan.contains("request 2, limit 3 per pod; 10 pods request 20 CPUs"), "{plan}");
    }
}

#[test]
fn every_child_and_what_a_pod_takes_is_told() {
    let folder = Folder::new("children");
    let file = folder.file("a.yaml", &format!("{APP}  replicas: 2\n  networkPolicy: {{}}\n"));
    let plan = text(&said(&["plan", &file]).stdout);
    assert!(plan.contains("\nBesides      PodDisruptionBudget, NetworkPolicy\n"), "{plan}");
    assert!(plan.contains("\nMemory       request none, limit none per pod\n"), "{plan}");
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
fn what_is_rendered_has_the_image_of_the_cluster_if_that_is_given() {
    let folder = Folder::new("image");
    let file = folder.file("a.yaml", APP);
    let image = "registry.example.com/workerapp:7";
    let given = said(&["render", &file, "--supervisor-image", image]);
    assert!(text(&given.stdout).contains(&format!("image: {image}\n")), "{}", text(&given.stdout));
    let own = concat!("image: workerapp:", env!("CARGO_PKG_VERSION"), "\n");
    assert!(text(&said(&["render", &file]).stdout).contains(own));
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
    let folder = Folder::new("kubeconfigs");
    let context = |name: &str| format!("{{name: {name}, context: {{cluster: c, user: u}}}}");
    let config = |current: &str| {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\nusers: [{{name: u, user: {{}}}}]\ncontexts: [{}, {}]\n{current}",
            context("here"),
            context("there")
        )
    };
    let good = folder.file("good", &config("current-context: here\n"));
    let none_chosen = folder.file("none", &config(""));
    let broken = folder.file("broken", "{");
    for (arguments, variable, expected) in [
        (&[][..], None, "no cluster is configured: the kubeconfig ~/.kube/config isn't there, and this isn't a pod; name one".to_owned()),
        (&[], Some("/nowhere"), "the kubeconfig /nowhere (from KUBECONFIG) isn't there".to_owned()),
        (&["--kubeconfig", "/nowhere"], None, "the kubeconfig /nowhere can't be used: No such file".to_owned()),
        (&["--kubeconfig", &broken], None, format!("the kubeconfig {broken} can't be used: ")),
        (&["--kubeconfig", &none_chosen], None, format!("the kubeconfig {none_chosen} has no current context; choose with --context: here, there")),
        (&["--context", "x"], Some(good.as_str()), format!("{good} (from KUBECONFIG) has no context \"x\"; choose with --context: here, there")),
        (&["--kubeconfig", &good], None, "the API server http://127.0.0.1:1 can't be reached: Connection refused".to_owned()),
        (&["--kubeconfig", &good, "--context", "there"], None, format!("the address is that of context there in {good}: does that cluster run")),
    ] {
        let mut command = program();
        command.arg("status").args(arguments).env_remove("KUBERNETES_SERVICE_HOST");
        if let Some(variable) = variable {
            command.env("KUBECONFIG", variable);
        }
        let output = command.output().unwrap();
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains(&expected), "{arguments:?} {variable:?}: {told}");
        assert!(!told.contains("environment variable"), "{told}");
    }
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
