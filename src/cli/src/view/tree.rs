//! A tree of objects, one line each.

use serde::Serialize;

use crate::output::{self, CYAN, GREEN, PLAIN, RED, YELLOW};

/// How well something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Health {
    /// As it should be.
    #[default]
    Well,
    /// On its way, or worth a look.
    Pending,
    /// Not as it should be.
    Ill,
}

/// One object with those below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Branch {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) health: Health,
    /// One or two words.
    pub(crate) state: String,
    /// What else is worth a line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<Branch>,
}

impl Branch {
    /// The lines of the tree, in columns.
    pub(crate) fn text(&self, colors: bool) -> String {
        let mut rows = Vec::new();
        self.rows("", "", &mut rows);
        let mut healths = Vec::new();
        self.healths(&mut healths);
        let text = output::table(&[], &rows);
        if !colors {
            return text;
        }
        let painted = text.lines().zip(healths).map(|(line, health)| paint(line, health));
        painted.collect::<Vec<_>>().join("\n") + "\n"
    }

    fn rows(&self, own: &str, below: &str, rows: &mut Vec<Vec<String>>) {
        rows.push(vec![format!("{own}{}/{}", self.kind, self.name), self.state.clone(), self.detail.clone()]);
        for (place, child) in self.children.iter().enumerate() {
            let last = place + 1 == self.children.len();
            let (own, next) = if last { ("└─", "  ") } else { ("├─", "│ ") };
            child.rows(&format!("{below}{own}"), &format!("{below}{next}"), rows);
        }
    }

    fn healths(&self, healths: &mut Vec<Health>) {
        healths.push(self.health);
        for child in &self.children {
            child.healths(healths);
        }
    }

    /// `kind/name` of this object and those below it that Kubernetes knows.
    pub(crate) fn names(&self) -> Vec<String> {
        let kind = match self.kind.to_lowercase() {
            // As kubectl writes a kind that isn't Kubernetes' own.
            app if app == "workerapp" => format!("workerapp.{}", workerapp_api::names::GROUP),
            kind => kind,
        };
        let own = (self.kind != "worker").then(|| format!("{kind}/{}", self.name));
        own.into_iter().chain(self.children.iter().flat_map(Self::names)).collect()
    }
}

/// The first column's name in cyan, the rest in the colour of its health.
fn paint(line: &str, health: Health) -> String {
    let color = match health {
        Health::Well => GREEN,
        Health::Pending => YELLOW,
        Health::Ill => RED,
    };
    // The branches themselves may have blanks in front.
    let start = line.find(|c: char| c.is_alphanumeric()).unwrap_or_default();
    let end = line.get(start..).and_then(|rest| rest.find("  ")).map_or(line.len(), |end| start + end);
    let (first, rest) = line.split_at(end);
    format!("{CYAN}{first}{PLAIN}{color}{rest}{PLAIN}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(name: &str, children: Vec<Branch>) -> Branch {
        Branch { kind: "Pod".into(), name: name.into(), state: "ok".into(), children, ..Branch::default() }
    }

    #[test]
    fn branches_are_drawn_to_their_end() {
        let tree = branch("a", vec![branch("b", vec![branch("c", vec![])]), branch("d", vec![])]);
        assert_eq!(tree.text(false), "Pod/a      ok\n├─Pod/b    ok\n│ └─Pod/c  ok\n└─Pod/d    ok\n");
        assert_eq!(tree.names(), ["pod/a", "pod/b", "pod/c", "pod/d"]);
    }

    #[test]
    fn what_is_ill_is_red() {
        let tree = Branch { health: Health::Ill, ..branch("a", vec![]) };
        assert_eq!(tree.text(true), "\x1b[36mPod/a\x1b[0m\x1b[31m  ok\x1b[0m\n");
    }
}
