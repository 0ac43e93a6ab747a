//! Which keys go when memory is short: the values of `maxmemory-policy`.

/// Which keys may go, and which of them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub pool: Pool,
    pub order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    Nothing,
    All,
    /// Keys with a deadline.
    Volatile,
    /// Keys with a deadline, and when there are none any.
    VolatileFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    LeastRecent,
    LeastFrequent,
    Random,
    SoonestDeadline,
}

const fn policy(pool: Pool, order: Order) -> Policy {
    Policy { pool, order }
}

/// The last is no parameter of Redis': it is what `eviction` of a database means, as Upstash has
/// it.
const POLICIES: [(&str, Policy); 9] = [
    ("noeviction", policy(Pool::Nothing, Order::Random)),
    ("allkeys-lru", policy(Pool::All, Order::LeastRecent)),
    ("allkeys-lfu", policy(Pool::All, Order::LeastFrequent)),
    ("allkeys-random", policy(Pool::All, Order::Random)),
    ("volatile-lru", policy(Pool::Volatile, Order::LeastRecent)),
    ("volatile-lfu", policy(Pool::Volatile, Order::LeastFrequent)),
    ("volatile-random", policy(Pool::Volatile, Order::Random)),
    ("volatile-ttl", policy(Pool::Volatile, Order::SoonestDeadline)),
    ("optimistic-volatile", policy(Pool::VolatileFirst, Order::Random)),
];

impl Policy {
    /// The number by which the configuration keeps a policy. Panics on an unknown name.
    pub fn number(name: &str) -> i64 {
        let position = POLICIES.iter().position(|(policy_name, _)| *policy_name == name);
        position.expect("a policy of the table") as i64
    }

    pub fn numbered(number: i64) -> Policy {
        POLICIES[number as usize].1
    }

    pub fn evicts(self) -> bool {
        self.pool != Pool::Nothing
    }

    pub fn counts_frequency(self) -> bool {
        self.order == Order::LeastFrequent
    }
}
