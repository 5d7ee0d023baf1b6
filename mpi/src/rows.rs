//! Rows that training ranks ask for: bound, made, and handed out.

use anyhow::{Context, bail};
use bytes::Bytes;
use mpi::Rank;
use proto::{Commitment, CoordinateRange, Result, ServiceError};

use super::{
    bindings::{Asked, Fate},
    keeper::is_fatal,
    message::{CONTROL, DATA_BYTES, Kind, Message, data_tag, reply_tag},
    serve::Service,
    window::Sending,
};

/// What answers a request.
pub enum Made {
    Data(Bytes),
    /// In the window already.
    Placed,
}

impl Service<'_> {
    pub(super) fn get(&mut self, from: Rank, get: Message) -> anyhow::Result<()> {
        match self.check(from, &get) {
            Ok((range, commitment)) => {
                let fate = self.bindings.ask(Asked { from, get, range, commitment });
                self.settle(fate)
            }
            Err(error) => {
                self.refuse(from, &get, &error);
                Ok(())
            }
        }
    }

    pub(super) fn settle(&mut self, fate: Fate) -> anyhow::Result<()> {
        match fate {
            Fate::Make(asked) => self.make(asked),
            Fate::Taken(asked) => {
                let error = self.already_bound(asked.get.row);
                self.refuse(asked.from, &asked.get, &error);
            }
            Fate::Superseded(asked) => {
                let error = self.superseded(asked.get.id);
                self.refuse(asked.from, &asked.get, &error);
            }
            Fate::Wait => {}
            Fate::Bind { branch, row, commitment } if self.keeper.is_some() => {
                if let Err(error) = self.bind(branch, row, commitment)? {
                    let text = Message::new(Kind::Refused).saying(&error).text;
                    self.refuse_row(branch, row, commitment, &text);
                }
            }
            Fate::Bind { branch, row, commitment } => {
                let bind = Message { id: branch, ..Message::about(Kind::Bind, row, commitment) };
                self.send(self.launch.root, CONTROL, bind);
            }
        }
        Ok(())
    }

    fn already_bound(&self, row: u64) -> ServiceError {
        let grant = self.owner.grant();
        let branch = grant.lineage.branch_of(row);
        ServiceError::AlreadyBound { job: grant.job.to_string(), branch, row }
    }

    fn check(&self, from: Rank, get: &Message) -> Result<(CoordinateRange, Commitment)> {
        let range = get.range()?;
        let own = self.owner.grant().range;
        let dimension = self.launch.dimension();
        let iterations = self.launch.iterations();
        if range.end > dimension {
            return Err(ServiceError::RangeBeyondDimension { start: range.start, end: range.end, dimension });
        }
        if !own.contains(&range) {
            return Err(ServiceError::invalid("range", range, format!("within this rank's {own}")));
        }
        if get.row >= iterations {
            return Err(ServiceError::RowBeyondIterations { row: get.row, iterations });
        }
        if get.in_window {
            let shared = self.launch.window.as_ref();
            let local = shared.and_then(|shared| Some((shared, shared.local(from)?)));
            let (shared, local) = local.ok_or_else(|| {
                ServiceError::invalid("window", "asked for", "by a rank of the same node that lends one")
            })?;
            shared.window.check(local, get.place, range.len() * 4)?;
        }
        Ok((range, get.commitment()?))
    }

    /// On the first noise rank: durable before anyone hears of it. Outer error: the ledger can bind no more.
    pub(super) fn bind(
        &mut self,
        branch: u64,
        row: u64,
        commitment: Commitment,
    ) -> anyhow::Result<Result<()>> {
        let Some(keeper) = &self.keeper else { bail!("a rank without the ledger was asked to bind") };
        match keeper.bind(row, branch, commitment) {
            Ok(()) => {
                self.tell_others(&Message { id: branch, ..Message::about(Kind::Bound, row, commitment) });
                self.rounds.bound(row);
                self.is_bound(branch, row, commitment)?;
                Ok(Ok(()))
            }
            Err(error) if is_fatal(&error) => Err(error.into()),
            Err(error) => Ok(Err(error.into())),
        }
    }

    pub(super) fn is_bound(&mut self, branch: u64, row: u64, commitment: Commitment) -> anyhow::Result<()> {
        let fates = self.bindings.bound(branch, row, commitment);
        fates.into_iter().try_for_each(|fate| self.settle(fate))
    }

    pub(super) fn refuse_row(&mut self, branch: u64, row: u64, commitment: Commitment, text: &[u8]) {
        for Asked { from, get, .. } in self.bindings.not_bound(branch, row, commitment) {
            self.send(from, reply_tag(get.slot), Message { kind: Kind::Refused, text: text.to_vec(), ..get });
        }
    }

    pub(super) fn refuse(&mut self, to: Rank, get: &Message, error: &ServiceError) {
        let refusal = Message { kind: Kind::Refused, ..get.clone() }.saying(error);
        self.send(to, reply_tag(get.slot), refusal);
    }

    /// The row is bound: it is waited for, and where it is to lie in the window, copied there, beside this loop.
    fn make(&mut self, asked: Asked) {
        let Asked { from, get, range, commitment } = &asked;
        let owner = self.owner.clone();
        let row = get.row;
        let range = *range;
        let commitment = *commitment;
        let shared = self.launch.window.as_ref().filter(|_| get.in_window);
        let place = shared.and_then(|shared| Some((shared.window.clone(), shared.local(*from)?, get.place)));
        let copying = self.copying.clone();
        let task = self.runtime.spawn(async move {
            let bytes = owner.part(row, commitment, range).await?;
            let Some((window, rank, at)) = place else { return Ok(Made::Data(bytes)) };
            let copied = copying.run(move || window.place(rank, at, &bytes)).await;
            copied.map_err(ServiceError::internal)??;
            Ok(Made::Placed)
        });
        self.making.push((asked, task));
    }

    pub(super) fn hand_out(&mut self) -> anyhow::Result<bool> {
        let (ready, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.making).into_iter().partition(|(_, task)| task.is_finished());
        self.making = later;
        let any = !ready.is_empty();
        for (Asked { from, get, .. }, task) in ready {
            match self.runtime.block_on(task).context("a task that makes a row")? {
                Ok(made) => self.answer(from, &get, made),
                Err(error) => self.refuse(from, &get, &error),
            }
            self.owner.delivered();
        }
        Ok(any)
    }

    /// Says that the data is there, and of what branch, and sends it from the row's own memory where it is not in the
    /// window.
    pub(super) fn answer(&mut self, to: Rank, get: &Message, made: Made) {
        if let (Made::Placed, Some(shared)) = (&made, &self.launch.window) {
            shared.window.sync();
        }
        // The shard has not turned since: it waits until all that is made is handed out.
        let grant = self.owner.grant();
        let id = grant.branch();
        let row = grant.lineage.from_row();
        let text = grant.job.to_string().into_bytes();
        self.send(to, reply_tag(get.slot), Message { kind: Kind::Ready, id, row, text, ..get.clone() });
        if let Made::Data(bytes) = made {
            for start in (0..bytes.len()).step_by(DATA_BYTES) {
                let chunk = bytes.slice(start..bytes.len().min(start + DATA_BYTES));
                self.sends.push(Sending::begin(&self.launch.all, to, data_tag(get.slot), chunk));
            }
        }
    }
}
