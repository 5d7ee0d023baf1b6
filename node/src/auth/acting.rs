//! Who the running task acts for, as records name it.
//!
//! The name is task-local, so whatever a handler awaits sees it. A task that it spawns does not, unless the future is
//! wrapped in [`carry_caller`].

use std::sync::Arc;

use proto::{PersonId, TenantId};
use tokio::task_local;

task_local! {
    static CALLER: CallerName;
}

/// A caller's role and identity, such as `operator spiffe://here/rustle/operator` or `trainer token:4fa01b23c4d5`, where the
/// digits begin a token's digest, the tenant that the caller acts for, and the person. Never a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerName {
    name: Arc<str>,
    tenant: Option<TenantId>,
    person: Option<PersonId>,
}

impl CallerName {
    pub(super) fn new(name: String, tenant: Option<TenantId>, person: Option<PersonId>) -> Self {
        Self { name: name.into(), tenant, person }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the tenant that the caller's credentials name.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Returns the person that the caller's credentials name.
    pub fn person(&self) -> Option<&PersonId> {
        self.person.as_ref()
    }

    /// Runs the handler of a call, which finds this as [`caller`].
    pub async fn scope<F: Future>(self, handling: F) -> F::Output {
        CALLER.scope(self, handling).await
    }
}

/// Returns the caller that this task acts for; `None` where the process acts on its own.
pub fn caller() -> Option<CallerName> {
    CALLER.try_with(Clone::clone).ok()
}

/// Wraps a future that is about to be spawned, so that it acts for the same caller.
pub fn carry_caller<'a, T: 'a>(
    future: impl Future<Output = T> + Send + 'a,
) -> impl Future<Output = T> + Send + 'a {
    let caller = caller();
    async move {
        match caller {
            Some(caller) => caller.scope(future).await,
            None => future.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn spawned_tasks_act_for_the_caller_only_when_carried() {
        let name = CallerName::new("operator token:4fa01b23c4d5".to_owned(), TenantId::new("ads").ok(), None);
        let (carried, bare) = name
            .clone()
            .scope(async {
                let carried = tokio::spawn(carry_caller(async { caller() }));
                let bare = tokio::spawn(async { caller() });
                (carried.await.unwrap(), bare.await.unwrap())
            })
            .await;
        assert_eq!((carried, bare, caller()), (Some(name), None, None));
    }
}
