//! The pages of errors whose examples are programs: they compile, run, and end as the page says.

#[doc = include_str!("../../cli/errors/B1.md")]
struct B1;

#[doc = include_str!("../../cli/errors/B2.md")]
struct B2;

#[doc = include_str!("../../cli/errors/B3.md")]
struct B3;

#[doc = include_str!("../../cli/errors/B4.md")]
struct B4;

#[doc = include_str!("../../cli/errors/B5.md")]
struct B5;

#[doc = include_str!("../../cli/errors/E10.md")]
struct E10;

#[doc = include_str!("../../cli/errors/E11.md")]
struct E11;

#[doc = include_str!("../../cli/errors/E3.md")]
struct E3;

#[doc = include_str!("../../cli/errors/E5.md")]
struct E5;

#[doc = include_str!("../../cli/errors/E7.md")]
struct E7;

#[doc = include_str!("../../cli/errors/E8.md")]
struct E8;

#[doc = include_str!("../../cli/errors/E9.md")]
struct E9;

#[doc = include_str!("../../cli/errors/heartbeat_timeout.md")]
struct HeartbeatTimeout;

#[doc = include_str!("../../cli/errors/panic.md")]
struct Panic;

#[doc = include_str!("../../cli/errors/queue_timeout.md")]
struct QueueTimeout;

#[doc = include_str!("../../cli/errors/terminal.md")]
struct Terminal;
