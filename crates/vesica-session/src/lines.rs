use crate::{Channel, Error, Result};

/// One unit's channels: one to every other party of the job.
pub struct Lines {
    channels: Vec<Box<dyn Channel>>,
}

impl Lines {
    /// The given channels, one a peer.
    pub fn new(channels: Vec<Box<dyn Channel>>) -> Self {
        Self { channels }
    }

    /// The only peer of a two-party protocol.
    ///
    /// # Errors
    /// [`Error::Bug`] in a job of another number of parties: the plan should have refused it.
    pub fn peer(&mut self) -> Result<&mut dyn Channel> {
        match self.channels.as_mut_slice() {
            [one] => Ok(one.as_mut()),
            all => Err(Error::Bug(format!("a two-party protocol ran with {} peers", all.len()))),
        }
    }

    /// The channel to the party at `place`.
    ///
    /// # Errors
    /// [`Error::Bug`] if no peer of this job has that place.
    pub fn at(&mut self, place: u8) -> Result<&mut dyn Channel> {
        for channel in &mut self.channels {
            if channel.peer().place() == place {
                return Ok(channel.as_mut());
            }
        }
        Err(Error::Bug(format!("no peer of this job has place {place}")))
    }

    /// The channels to the parties at two places, for who stands between them.
    ///
    /// # Errors
    /// [`Error::Bug`] if no peers of this job have those places.
    pub fn two(&mut self, first: u8, second: u8) -> Result<(&mut dyn Channel, &mut dyn Channel)> {
        let mut found = (None, None);
        for channel in &mut self.channels {
            let place = channel.peer().place();
            if place == first {
                found.0 = Some(channel.as_mut());
            } else if place == second {
                found.1 = Some(channel.as_mut());
            }
        }
        match found {
            (Some(a), Some(b)) => Ok((a, b)),
            _ => Err(Error::Bug(format!("no peers of this job have the places {first} and {second}"))),
        }
    }

    /// Every channel, for what is said to all.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Box<dyn Channel>> {
        self.channels.iter_mut()
    }

    /// A line of the same name to every peer.
    ///
    /// # Errors
    /// Those of [`Channel::line`].
    pub fn line(&self, name: &str) -> Result<Lines> {
        Ok(Lines { channels: self.channels.iter().map(|c| c.line(name)).collect::<Result<_>>()? })
    }
}
