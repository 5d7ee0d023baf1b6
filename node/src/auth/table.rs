//! The one table of rights: who may call what. What is not in it may not be called.

use GrantRole::*;

use super::GrantRole;

/// One RPC, or all of a service where the method is `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub path: &'static str,
    pub roles: &'static [GrantRole],
    pub about: About,
}

/// Whose name a request carries: handlers compare it with the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Job,
    /// The answer holds only what the caller may see.
    VisibleJobs,
    Worker,
    Nothing,
}

const EVERYONE: &[GrantRole] = &GrantRole::ALL;

pub const RULES: &[Rule] = &[
    rule("/rustle.v1.Jobs/CreateJob", &[Operator], About::Job),
    rule("/rustle.v1.Jobs/GetJob", &[Trainer, Operator, Auditor], About::Job),
    rule("/rustle.v1.Jobs/ListJobs", &[Trainer, Operator, Auditor], About::VisibleJobs),
    rule("/rustle.v1.Jobs/FinishJob", &[Trainer, Operator], About::Job),
    rule("/rustle.v1.Jobs/DestroyJob", &[Operator], About::Job),
    rule("/rustle.v1.Jobs/ReshardJob", &[Operator], About::Job),
    rule("/rustle.v1.Jobs/SetPlacementHints", &[Trainer, Operator], About::Job),
    rule("/rustle.v1.Jobs/CheckpointJob", &[Trainer, Operator], About::Job),
    rule("/rustle.v1.Jobs/GetReport", &[Trainer, Operator, Auditor], About::Job),
    rule("/rustle.v1.Jobs/OpenBranch", &[Trainer, Operator], About::Job),
    rule("/rustle.v1.Jobs/ListEntries", &[Trainer, Operator, Auditor], About::Job),
    rule("/rustle.v1.Jobs/GetHead", &[Trainer, Operator, Auditor], About::Job),
    rule("/rustle.v1.Jobs/GetCursor", &[Trainer, Operator], About::Job),
    rule("/rustle.v1.Jobs/CheckCursor", &[Trainer, Operator], About::Job),
    rule("/rustle.v1.Jobs/ResumeJob", &[Trainer, Operator], About::Job),
    rule("/rustle.v1.Noise/GetRouting", &[Trainer, Operator], About::Job),
    rule("/rustle.v1.Noise/Bind", &[Trainer], About::Job),
    rule("/rustle.v1.Noise/Fetch", &[Trainer], About::Job),
    rule("/rustle.v1.Workers/Register", &[Worker], About::Worker),
    rule("/rustle.v1.Workers/Heartbeat", &[Worker], About::Worker),
    rule("/rustle.v1.Workers/Deregister", &[Worker], About::Worker),
    rule("/rustle.v1.Workers/GetJobPlan", &[Worker], About::Nothing),
    rule("/rustle.v1.Workers/DrainWorker", &[Operator], About::Nothing),
    // A release token is asked for besides, which only a trainer gets: an operator can reach a worker, not read rows.
    rule("/rustle.v1.Shards/FetchSlice", &[Coordinator, Trainer, Operator], About::Job),
    rule("/rustle.v1.Shards/Snapshot", &[Coordinator], About::Nothing),
    rule("/grpc.health.v1.Health/*", EVERYONE, About::Nothing),
    rule("/grpc.reflection.v1.ServerReflection/*", EVERYONE, About::Nothing),
];

const fn rule(path: &'static str, roles: &'static [GrantRole], about: About) -> Rule {
    Rule { path, roles, about }
}

pub fn find(path: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| match rule.path.strip_suffix('*') {
        Some(service) => path.starts_with(service),
        None => rule.path == path,
    })
}

/// As docs/security.md prints it.
pub fn markdown() -> String {
    let mut text = String::from("| RPC |");
    GrantRole::ALL.iter().for_each(|role| text += &format!(" {} |", role.name()));
    text += "\n|---|";
    text += &"---|".repeat(GrantRole::ALL.len());
    for rule in RULES {
        let path = rule.path.trim_start_matches("/rustle.v1.").trim_start_matches("/grpc.");
        text += &format!("\n| {} |", path.replace('/', "."));
        for role in GrantRole::ALL {
            text += match (rule.roles.contains(&role), rule.about) {
                (false, _) => " – |",
                (true, About::Job | About::VisibleJobs | About::Worker) => " own |",
                (true, About::Nothing) => " yes |",
            };
        }
    }
    text + "\n"
}
