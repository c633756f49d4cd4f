// A group of ranks, in the shape of mlx-swift's DistributedGroup.
//
//   let world = try Group()                        // this process's job, by its launcher
//   let sum = try world.allSum([1, 2, 3] as [Float])
//   let same = try await world.allSum(buffer)      // in async functions: no thread is blocked
//
// Every rank of a group must make the same calls in the same order. Child tasks (async let, a
// TaskGroup) run in no particular order, so two of them must not call the same group, except for
// send and recv with tags of their own. For several operations under way, begin one after the other
// by `begin`, which returns at once, and await them afterwards.
//
// A group that has failed stays failed: each later call throws the same at once.

import CMlxcomm

public final class Group: Sendable {
  let core: GroupCore

  init(_ core: GroupCore) { self.core = core }

  /// The group of all ranks of this process's job, by the variables that mlxcommctl launch,
  /// mlx.launch, mpirun, torchrun or srun have set. Later calls give the same group, until the
  /// process ends. Waits until all ranks are there.
  ///
  /// - Parameters:
  ///   - strict: without any launcher: true throws UNAVAILABLE, false gives a group of one rank.
  ///   - backend: any of MLX's names; all mean the same.
  public convenience init(strict: Bool = false, backend: Backend = .any) throws {
    self.init(try World.shared.core(strict: strict, backend: backend))
  }

  /// As `init(strict: true, backend:)`.
  public convenience init(strict backend: Backend) throws {
    try self.init(strict: true, backend: backend)
  }

  /// `init(strict:backend:)` for async functions, where ranks that are not there yet block no thread.
  public static func join(strict: Bool = false, backend: Backend = .any) async throws -> Group {
    Group(try await awaitBlocking { try World.shared.core(strict: strict, backend: backend) })
  }

  /// Joins `job` as `rank` of `size` and waits until all ranks are there. The job is left when the last
  /// group and buffer of it is gone.
  ///
  /// - Parameters:
  ///   - job: nil: $MLXCOMM_JOB, else it follows from the launcher's variables; so for rank and size.
  ///   - socket: the daemon's; nil: $MLXCOMM_SOCKET, else the service's, else a private daemon.
  ///   - timeout: nil: the daemon's (5 minutes).
  public convenience init(
    job: String?, rank: Int? = nil, size: Int? = nil, socket: String? = nil, timeout: Duration? = nil
  ) throws {
    self.init(try Self.joined(job: job, rank: rank, size: size, timeout: timeout) {
      try Connection(socket: socket)
    })
  }

  /// The same for async functions. Cancelling the Task ends the wait.
  public static func join(
    job: String?, rank: Int? = nil, size: Int? = nil, socket: String? = nil, timeout: Duration? = nil
  ) async throws -> Group {
    Group(try await awaitBlocking {
      try joined(job: job, rank: rank, size: size, timeout: timeout) { try Connection(socket: socket) }
    })
  }

  /// The same over a connection of your own, which joins one job at a time.
  public convenience init(
    _ connection: Connection, job: String?, rank: Int? = nil, size: Int? = nil, timeout: Duration? = nil
  ) throws {
    self.init(try Self.joined(job: job, rank: rank, size: size, timeout: timeout) { connection })
  }

  private static func joined(
    job: String?, rank: Int?, size: Int?, timeout: Duration?, by connection: () throws -> Connection
  ) throws -> GroupCore {
    _ = try nanoseconds(timeout)
    let place = try Place(job: job, rank: rank, size: size)
    if place.size == 1 { return .alone }
    return try GroupCore.join(
      try connection(), job: place.job, rank: place.rank, size: place.size, timeout: timeout)
  }

  public var rank: Int { core.rank }
  public var size: Int { core.size }
  /// What `mlxcommctl status` calls it: "train", "train/rows".
  public var name: String { core.name }

  public struct Member: Sendable, Hashable {
    public let node: String
    public let pid: Int
  }
  /// Where a rank runs; nil for one that does not exist.
  public func member(_ rank: Int) -> Member? { core.member(rank) }

  /// How it failed, if a call of this process has met a failure. Asks no other process.
  public var failure: MlxcommError? { core.failure }

  /// Throws the failure again, if there is one.
  public func check() throws {
    if let failure { throw failure }
  }

  /// The deadline of this rank's later calls that name none; groups split off afterwards inherit
  /// it. nil is the daemon's default: a call waits as long as the ranks that it waits for may still
  /// come.
  public func setTimeout(_ timeout: Duration?) throws { try core.setTimeout(timeout) }

  /// Leaves the job because this program ends by a fault: all other ranks get RANK_LOST at once,
  /// with `why` (at most 120 bytes), whatever they do.
  public func leave(why: String) { core.leave(why: why) }

  /// A new group of all ranks that name the same color, in order of key (nil, or less than 0: the rank
  /// here), then of rank. Every rank must call it, in the same order as its operations.
  ///
  /// - Parameters:
  ///   - color: 0 or more.
  ///   - name: shown by `mlxcommctl status`, behind this group's; nil: the color.
  ///   - timeout: for the whole.
  public func split(
    color: Int, key: Int? = nil, name: String? = nil, timeout: Duration? = nil
  ) throws -> Group {
    Group(try core.split(color: color, key: order(key), name: name, timeout: timeout)!)
  }

  public func split(
    color: Int, key: Int? = nil, name: String? = nil, timeout: Duration? = nil
  ) async throws -> Group {
    let (core, key) = (core, order(key))
    return Group(try await awaitBlocking {
      try core.split(color: color, key: key, name: name, timeout: timeout)!
    })
  }

  /// For a rank that takes no part while others `split`.
  public func splitWithoutMe(timeout: Duration? = nil) throws {
    _ = try core.split(color: nil, key: 0, name: nil, timeout: timeout)
  }

  public func splitWithoutMe(timeout: Duration? = nil) async throws {
    let core = core
    _ = try await awaitBlocking { try core.split(color: nil, key: 0, name: nil, timeout: timeout) }
  }

  private func order(_ key: Int?) -> Int { key.flatMap { $0 < 0 ? nil : $0 } ?? rank }

  /// After a failure: a new group of the ranks that are left, in the old order. Every rank that is
  /// left must call it; returns when all have, or when those that have not are gone. If it replaces
  /// the group of `Group()`, that returns the new one from then on.
  public func shrink(timeout: Duration? = nil) throws -> Group {
    let rest = try core.shrink(timeout: timeout)
    World.shared.replace(core, by: rest)
    return Group(rest)
  }

  public func shrink(timeout: Duration? = nil) async throws -> Group {
    let core = core
    return Group(try await awaitBlocking {
      let rest = try core.shrink(timeout: timeout)
      World.shared.replace(core, by: rest)
      return rest
    })
  }

  /// Begins an operation and returns at once. Arguments are checked first: INVALID_ARGUMENT names
  /// the wrong one, and nothing has changed on any rank.
  public func begin(_ operation: Operation, timeout: Duration? = nil) throws -> Pending {
    try Pending(core, operation, timeout: timeout)
  }

  /// Carries an operation out, and blocks until it has ended.
  public func run(_ operation: Operation, timeout: Duration? = nil) throws {
    try begin(operation, timeout: timeout).wait()
  }

  /// Carries an operation out. Cancelling the Task gives it up, which fails the group with
  /// CANCELLED on all ranks; a Task that was cancelled before throws CancellationError, and nothing
  /// has changed.
  public func run(_ operation: Operation, timeout: Duration? = nil) async throws {
    try Task.checkCancellation()
    try await begin(operation, timeout: timeout).wait()
  }
}
