// Implements Group: a handle of libmlxcomm and its job; a group of one rank has neither and needs no daemon.
// Several Groups may share one. Thread: any. A part's handle is closed with the core, the world's with the
// job.

import CMlxcomm
import Foundation

final class GroupCore: Sendable {
  struct Joined: Sendable {
    let job: Job
    let handle: Handle
    let isWorld: Bool
  }

  let joined: Joined?  // nil: a group of one.
  let rank: Int
  let size: Int
  let name: String

  static let alone = GroupCore()

  private init() {
    joined = nil
    rank = 0
    size = 1
    name = "alone"
  }

  init(_ joined: Joined) {
    self.joined = joined
    let group = joined.handle.pointer
    rank = Int(mlxcomm_rank(group))
    size = Int(mlxcomm_size(group))
    name = String(cString: mlxcomm_group_name(group))
  }

  deinit {
    if let joined, !joined.isWorld { mlxcomm_group_close(joined.handle.pointer) }
  }

  var isAlone: Bool { joined == nil }
  var job: Job? { joined?.job }

  static func join(
    _ connection: Connection, job: String, rank: Int, size: Int, timeout: Duration?
  ) throws -> GroupCore {
    let wait = try nanoseconds(timeout)
    var world: OpaquePointer?
    try withOptionalCString(job) { name in
      try call {
        mlxcomm_join(connection.handle.pointer, name, UInt32(rank), UInt32(size), wait, &world, $0)
      }
    }
    let handle = Handle(pointer: world!)
    return GroupCore(Joined(job: Job(connection, world: handle), handle: handle, isWorld: true))
  }

  func begin(_ operation: Group.Operation, timeout: UInt64) throws -> UInt64 {
    guard let joined else {
      if let from = operation.input, let to = operation.output, from.start != to.start {
        to.start.copyMemory(from: from.start, byteCount: min(from.bytes.count, to.bytes.count))
      }
      return 0
    }
    try joined.job.enter()
    var ticket: UInt64 = 0
    do {
      let group = joined.handle.pointer
      try call(in: group) { error in
        withUnsafeMutablePointer(to: &ticket) {
          operation.begin(.init(group: group, timeout: timeout, ticket: $0, error: error))
        }
      }
    } catch {
      joined.job.leave()
      throw error
    }
    return ticket
  }

  func wait(_ ticket: UInt64) -> Result<Void, MlxcommError> {
    ending { mlxcomm_wait($0, ticket, $1) }
  }

  /// Returns nil while it is in progress.
  func test(_ ticket: UInt64) -> Result<Void, MlxcommError>? {
    var done: Int32 = 1
    let result = ending { mlxcomm_test($0, ticket, &done, $1) }
    return done == 0 ? nil : result
  }

  func cancel(_ ticket: UInt64, timeout: UInt64) -> Result<Void, MlxcommError> {
    ending { mlxcomm_cancel($0, ticket, timeout, $1) }
  }

  private func ending(
    _ body: (OpaquePointer, UnsafeMutablePointer<mlxcomm_error>) -> mlxcomm_code
  ) -> Result<Void, MlxcommError> {
    guard let group = joined?.handle.pointer else { return .success(()) }
    return withUnsafeTemporaryAllocation(of: mlxcomm_error.self, capacity: 1) { error in
      let code = body(group, error.baseAddress!)
      guard let failure = MlxcommError(code, error.baseAddress!, in: group) else { return .success(()) }
      return .failure(failure)
    }
  }

  func split(color: Int?, key: Int, name: String?, timeout: Duration?) throws -> GroupCore? {
    let wait = try nanoseconds(timeout)
    guard let number = Int32(exactly: color ?? Int(MLXCOMM_NO_GROUP)), color ?? 0 >= 0 else {
      throw invalid("color: expected 0 <= color <= \(Int32.max) or nil, got \(color ?? 0)")
    }
    guard let key = Int32(exactly: key) else {
      throw invalid("key: expected a 32-bit number, got \(key)")
    }
    guard let joined else { return color == nil ? nil : .alone }
    let group = joined.handle.pointer
    return try joined.job.during {
      var part: OpaquePointer?
      try withOptionalCString(name) { name in
        try call(in: group) { mlxcomm_split(group, number, key, name, wait, &part, $0) }
      }
      return part.map { GroupCore(Joined(job: joined.job, handle: Handle(pointer: $0), isWorld: false)) }
    }
  }

  func shrink(timeout: Duration?) throws -> GroupCore {
    let wait = try nanoseconds(timeout)
    guard let joined else { throw invalid("shrink: group: expected more than one rank, got one") }
    let group = joined.handle.pointer
    let rest = try joined.job.during {
      var rest: OpaquePointer?
      try call(in: group) { mlxcomm_shrink(group, wait, &rest, $0) }
      return Handle(pointer: rest!)
    }
    if joined.isWorld { joined.job.add(world: rest) }
    return GroupCore(Joined(job: joined.job, handle: rest, isWorld: joined.isWorld))
  }

  // Queries count as calls on the job, because its handle is closed at exit.

  var failure: MlxcommError? {
    guard let joined else { return nil }
    do {
      try joined.job.during {
        try call(in: joined.handle.pointer) { mlxcomm_group_failure(joined.handle.pointer, $0) }
      }
      return nil
    } catch {
      return error as? MlxcommError ?? MlxcommError(.internalError, "\(error)")
    }
  }

  func setTimeout(_ timeout: Duration?) throws {
    let wait = try nanoseconds(timeout)
    guard let joined else { return }
    try joined.job.during { mlxcomm_group_set_timeout(joined.handle.pointer, wait) }
  }

  func leave(why: String) {
    guard let joined else { return }
    try? joined.job.during { mlxcomm_leave(joined.handle.pointer, why) }  // The job may have been left.
  }

  func member(_ rank: Int) -> Group.Member? {
    guard let joined else { return rank == 0 ? .init(node: Self.ownNode(), pid: Int(getpid())) : nil }
    return try? joined.job.during {
      guard let number = UInt32(exactly: rank), let node = mlxcomm_member_node(joined.handle.pointer, number)
      else { return nil }
      let pid = mlxcomm_member_pid(joined.handle.pointer, number)
      return Group.Member(node: String(cString: node), pid: Int(pid))
    }
  }

  private static func ownNode() -> String {
    var system = utsname()
    guard uname(&system) == 0 else { return "localhost" }
    return withUnsafeBytes(of: &system.nodename) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
  }
}
