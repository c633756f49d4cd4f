// A group of ranks, modelled on mlx-swift's DistributedGroup.
//
//   let world = try Group()                        // this process's job, from its launcher
//   let sum = try world.allSum([1, 2, 3] as [Float])
//   let same = try await world.allSum(buffer)      // in async functions; does not block a thread
//
// Every rank of a group must make the same calls in the same order. Child tasks (async let, a TaskGroup) run
// in any order, so two of them must not call the same group, except for send and recv with separate tags. To
// run several operations at once, `begin` them one after the other and await them afterwards.
//
// A group that has failed stays failed: each later call throws the same error.

import CMlxcomm

public final class Group: Sendable {
  let core: GroupCore

  init(_ core: GroupCore) { self.core = core }

  /// Joins this process's job, given by the variables of mlxcommctl launch, mlx.launch, mpirun, torchrun or
  /// srun, and waits until all ranks have joined. Later calls return the same group.
  ///
  /// - Parameters:
  ///   - strict: without a launcher, throw UNAVAILABLE instead of making a group of one rank.
  ///   - backend: one of MLX's names; all mean the same.
  public convenience init(strict: Bool = false, backend: Backend = .any) throws {
    self.init(try World.shared.core(strict: strict, backend: backend))
  }

  /// Same as `init(strict: true, backend:)`.
  public convenience init(strict backend: Backend) throws {
    try self.init(strict: true, backend: backend)
  }

  /// Async version of `init(strict:backend:)`; does not block a thread.
  public static func join(strict: Bool = false, backend: Backend = .any) async throws -> Group {
    Group(try await awaitBlocking { try World.shared.core(strict: strict, backend: backend) })
  }

  /// Joins `job` as `rank` of `size` and waits until all ranks have joined. The job is left when its last
  /// group and buffer are released.
  ///
  /// - Parameters:
  ///   - job: nil: $MLXCOMM_JOB, else from the launcher's variables, like rank and size.
  ///   - socket: the daemon's socket; nil: $MLXCOMM_SOCKET, then the service's, then a private
  /// daemon's.
  ///   - timeout: nil: the daemon's (5 minutes).
  public convenience init(
    job: String?, rank: Int? = nil, size: Int? = nil, socket: String? = nil, timeout: Duration? = nil
  ) throws {
    self.init(try Self.joined(job: job, rank: rank, size: size, timeout: timeout) {
      try Connection(socket: socket)
    })
  }

  /// Async version; cancelling the Task stops waiting.
  public static func join(
    job: String?, rank: Int? = nil, size: Int? = nil, socket: String? = nil, timeout: Duration? = nil
  ) async throws -> Group {
    Group(try await awaitBlocking {
      try joined(job: job, rank: rank, size: size, timeout: timeout) { try Connection(socket: socket) }
    })
  }

  /// Joins over an existing connection, which joins one job at a time.
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
  /// The name in `mlxcommctl status`: "train", "train/rows".
  public var name: String { core.name }

  public struct Member: Sendable, Hashable {
    public let node: String
    public let pid: Int
  }
  /// Returns where a rank runs; nil if the rank does not exist.
  public func member(_ rank: Int) -> Member? { core.member(rank) }

  /// The failure, if a call of this process has failed. Asks no other process.
  public var failure: MlxcommError? { core.failure }

  /// Throws the failure again, if any.
  public func check() throws {
    if let failure { throw failure }
  }

  /// Sets the default timeout of this rank's later calls, and of groups that are split off later. nil: the
  /// daemon's default, which waits as long as the missing ranks may still call.
  public func setTimeout(_ timeout: Duration?) throws { try core.setTimeout(timeout) }

  /// Leaves the job because of an error: all other ranks get RANK_LOST at once, with `why` (at most 120
  /// bytes).
  public func leave(why: String) { core.leave(why: why) }

  /// Makes a new group of all ranks with the same color, sorted by key, then by rank. Every rank must call
  /// it, in the same order as its operations.
  ///
  /// - Parameters:
  ///   - color: 0 or more.
  ///   - key: nil or negative: this rank.
  ///   - name: appended to this group's name in `mlxcommctl status`; nil: the color.
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

  /// Call this on ranks that do not take part when others `split`.
  public func splitWithoutMe(timeout: Duration? = nil) throws {
    _ = try core.split(color: nil, key: 0, name: nil, timeout: timeout)
  }

  public func splitWithoutMe(timeout: Duration? = nil) async throws {
    let core = core
    _ = try await awaitBlocking { try core.split(color: nil, key: 0, name: nil, timeout: timeout) }
  }

  private func order(_ key: Int?) -> Int { key.flatMap { $0 < 0 ? nil : $0 } ?? rank }

  /// Makes a new group of the remaining ranks after a failure, in the old order. Every remaining rank must
  /// call it; it returns when all of them have called it or died. If it replaces the group of `Group()`, that
  /// returns the new one from then on.
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

  /// Begins an operation without waiting. Throws INVALID_ARGUMENT, before any other rank is involved, if an
  /// argument is wrong.
  public func begin(_ operation: Operation, timeout: Duration? = nil) throws -> Pending {
    try Pending(core, operation, timeout: timeout)
  }

  /// Runs an operation, and blocks until it has ended.
  public func run(_ operation: Operation, timeout: Duration? = nil) throws {
    try begin(operation, timeout: timeout).wait()
  }

  /// Runs an operation. Cancelling the Task cancels it, which fails the group with CANCELLED on all ranks; if
  /// the Task was cancelled before, this throws CancellationError and does nothing.
  public func run(_ operation: Operation, timeout: Duration? = nil) async throws {
    try Task.checkCancellation()
    try await begin(operation, timeout: timeout).wait()
  }
}
