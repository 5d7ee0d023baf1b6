//! Rows that training ranks ask for: bound, made, and handed out.

use anyhow::{Context, bail};
use bytes::Bytes;
use mpi::Rank;
use proto::{Commitment, CoordinateRange, Result, ServiceError};

use super::{
    keeper::is_fatal,
    message::{self, CONTROL, DATA_BYTES, Kind, Message, data_tag, reply_tag},
    serve::Service,
    window::Sending,
};

pub struct Asked {
    pub from: Rank,
    pub get: Message,
    range: CoordinateRange,
    commitment: Commitment,
}

/// What answers a request.
pub enum Made {
    Data(Bytes),
    /// In the window already.
    Placed,
}

impl Service<'_> {
    pub(super) fn get(&mut self, from: Rank, get: Message) -> anyhow::Result<()> {
        let (range, commitment) = match self.check(from, &get) {
            Ok(checked) => checked,
            Err(error) => {
                self.refuse(from, &get, &error);
                return Ok(());
            }
        };
        let row = get.row;
        let asked = Asked { from, get, range, commitment };
        match self.bound.get(&row) {
            Some(bound) if *bound == commitment => self.make(asked),
            Some(_) => {
                let error = self.already_bound(row);
                self.refuse(from, &asked.get, &error);
            }
            None => {
                let same = |other: &Asked| other.get.row == row && other.commitment == commitment;
                let is_asked_for = self.unbound.iter().any(same);
                self.unbound.push(asked);
                let branch = self.owner.grant().branch();
                if self.keeper.is_none() && !is_asked_for {
                    let bind = Message { id: branch, ..Message::about(Kind::Bind, row, commitment) };
                    self.send(self.launch.root, CONTROL, bind);
                } else if self.keeper.is_some()
                    && let Err(error) = self.bind(row, branch, commitment)?
                {
                    self.refuse_row(row, commitment, &Message::new(Kind::Refused).saying(&error).text);
                }
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
        let (range, own) = (get.range()?, self.owner.grant().range);
        if ![message::ANY_BRANCH, self.owner.grant().branch()].contains(&get.id) || self.turning.is_some() {
            return Err(self.superseded(get.id));
        }
        let (dimension, iterations) = (self.launch.dimension(), self.launch.iterations());
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
        row: u64,
        branch: u64,
        commitment: Commitment,
    ) -> anyhow::Result<Result<()>> {
        let Some(keeper) = &self.keeper else { bail!("a rank without the ledger was asked to bind") };
        match keeper.bind(row, branch, commitment) {
            Ok(()) => {
                self.tell_others(&Message::about(Kind::Bound, row, commitment));
                self.rounds.bound(row);
                self.is_bound(row, commitment);
                Ok(Ok(()))
            }
            Err(error) if is_fatal(&error) => Err(error.into()),
            Err(error) => Ok(Err(error.into())),
        }
    }

    pub(super) fn is_bound(&mut self, row: u64, commitment: Commitment) {
        self.bound.insert(row, commitment);
        let (now, later) =
            std::mem::take(&mut self.unbound).into_iter().partition(|asked: &Asked| asked.get.row == row);
        self.unbound = later;
        for asked in now {
            match asked.commitment == commitment {
                true => self.make(asked),
                false => {
                    let error = self.already_bound(row);
                    self.refuse(asked.from, &asked.get, &error);
                }
            }
        }
    }

    pub(super) fn refuse_row(&mut self, row: u64, commitment: Commitment, text: &[u8]) {
        let is_refused = |asked: &Asked| asked.get.row == row && asked.commitment == commitment;
        let (refused, later) = std::mem::take(&mut self.unbound).into_iter().partition(is_refused);
        self.unbound = later;
        for Asked { from, get, .. } in refused {
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
        let (owner, row, range, commitment) = (self.owner.clone(), get.row, *range, *commitment);
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

    /// Says that the data is there, and sends it from the row's own memory where it is not in the window.
    pub(super) fn answer(&mut self, to: Rank, get: &Message, made: Made) {
        if let (Made::Placed, Some(shared)) = (&made, &self.launch.window) {
            shared.window.sync();
        }
        self.send(to, reply_tag(get.slot), Message { kind: Kind::Ready, ..get.clone() });
        if let Made::Data(bytes) = made {
            for start in (0..bytes.len()).step_by(DATA_BYTES) {
                let chunk = bytes.slice(start..bytes.len().min(start + DATA_BYTES));
                self.sends.push(Sending::begin(&self.launch.all, to, data_tag(get.slot), chunk));
            }
        }
    }
}
