// A session with the daemon, and the job that a process has joined over it. Thread: any.
//
//   Group ─▶ Job ─▶ Connection ◀─ Memory ◀─ Buffer
//
// ARC closes them in this order: parts of a group, the world group, and, without buffers left, the session.

import CMlxcomm
import Foundation

struct Handle: @unchecked Sendable {  // libmlxcomm is thread-safe.
  let pointer: OpaquePointer
}

/// A session with this machine's daemon. Groups open one themselves; use this to join several jobs, or to
/// reserve less address space.
public final class Connection: Sendable {
  let handle: Handle

  /// - Parameters:
  ///   - socket: the daemon's socket; nil: $MLXCOMM_SOCKET, then the service's, then a private
  /// daemon's.
  ///   - arenaBytes: address space for buffers, in bytes; nil: as much as the daemon allows.
  ///   - timeout: nil: 10 s.
  ///   - startPrivateDaemon: start one if no socket was named and no daemon is running.
  public init(
    socket: String? = nil, arenaBytes: Int? = nil, timeout: Duration? = nil,
    startPrivateDaemon: Bool = true
  ) throws {
    if let arenaBytes, arenaBytes <= 0 {
      throw invalid("arenaBytes: expected more than 0, got \(arenaBytes)")
    }
    var options = mlxcomm_connect_options()
    mlxcomm_connect_options_init(&options)
    options.arena_bytes = UInt64(arenaBytes ?? 0)
    options.timeout_ns = try nanoseconds(timeout)
    options.start_private_daemon = startPrivateDaemon ? 1 : 0
    options.interrupted = Interruption.asked
    var made: OpaquePointer?
    try withOptionalCString(socket) { path in
      options.socket_path = path
      try call { mlxcomm_connect(&options, &made, $0) }
    }
    handle = Handle(pointer: made!)
  }

  deinit { mlxcomm_disconnect(handle.pointer) }
}

func withOptionalCString<Value>(
  _ string: String?, _ body: (UnsafePointer<CChar>?) throws -> Value
) throws -> Value {
  guard let string else { return try body(nil) }
  guard !string.utf8.contains(0) else { throw invalid("\(string.debugDescription): expected no NUL") }
  return try string.withCString(body)
}

/// A job that this process has joined: its world group, those that it has shrunk to, and the calls in
/// progress.
final class Job: @unchecked Sendable {  // All state is behind `condition`.
  let connection: Connection

  private let condition = NSCondition()
  private var worlds: [Handle]
  private var underWay = 0
  private var ended = 0
  private var isClosed = false

  /// Takes ownership of the world group's handle.
  init(_ connection: Connection, world: Handle) {
    self.connection = connection
    worlds = [world]
    ProcessEnd.add(self)
  }

  deinit {
    for world in worlds.reversed() { mlxcomm_group_close(world.pointer) }
  }

  func add(world: Handle) { condition.withLock { worlds.append(world) } }

  func enter() throws {
    try condition.withLock {
      guard !isClosed else {
        throw MlxcommError(.cancelled, "this process is exiting and has left the job")
      }
      underWay += 1
    }
  }

  func leave() {
    condition.withLock {
      underWay -= 1
      ended += 1
      condition.broadcast()
    }
  }

  func during<Value>(_ body: () throws -> Value) throws -> Value {
    try enter()
    defer { leave() }
    return try body()
  }

  /// Waits for operations in progress, because other ranks still need them, then leaves the job. If none ends
  /// within `patience`, it gives up, and the other ranks see RANK_LOST.
  func close(patience: TimeInterval) {
    condition.lock()
    defer { condition.unlock() }
    let reportAt = Date(timeIntervalSinceNow: 10)
    var hasReported = false
    var before = ended
    var until = Date(timeIntervalSinceNow: patience)
    while underWay > 0 && Date() < until {
      _ = condition.wait(until: hasReported ? until : min(reportAt, until))
      if ended != before {
        before = ended
        until = Date(timeIntervalSinceNow: patience)
      }
      if underWay > 0 && !hasReported && Date() >= reportAt {
        hasReported = true
        log("exiting, but still waiting for \(underWay) calls. mlxcommctl status shows which ranks they "
          + "wait for; Ctrl-C stops waiting")
      }
    }
    isClosed = true
    if underWay > 0 {
      log("no longer waiting for \(underWay) calls: none has ended for \(patience) s")
      return
    }
    // Closing the last world leaves the job. No call on a group is in progress, and none can begin.
    if let world = worlds.popLast() { mlxcomm_group_close(world.pointer) }
    worlds.removeAll()
  }

  private func log(_ text: String) {
    FileHandle.standardError.write(Data("mlxcomm: \(text)\n".utf8))
  }
}

/// Leaves this process's jobs at exit, because Swift does not deinitialize globals. It does not run after a
/// trap, abort() or a signal.
enum ProcessEnd {
  private static let patienceSeconds = 60.0

  private final class Jobs: @unchecked Sendable {  // `known` is behind `lock`.
    struct Known { weak var job: Job? }
    let lock = NSLock()
    let pid = getpid()
    var known: [Known] = []
  }
  private static let jobs: Jobs = {
    atexit { ProcessEnd.leaveAll() }
    return Jobs()
  }()

  static func add(_ job: Job) {
    jobs.lock.withLock {
      jobs.known.removeAll { $0.job == nil }
      jobs.known.append(Jobs.Known(job: job))
    }
  }

  private static func leaveAll() {
    guard getpid() == jobs.pid else { return }  // A forked child has joined nothing.
    let open = jobs.lock.withLock { jobs.known.compactMap(\.job) }
    for job in open { job.close(patience: patience()) }
  }

  private static func patience() -> TimeInterval {
    guard let word = ProcessInfo.processInfo.environment["MLXCOMM_END_TIMEOUT"], !word.isEmpty else {
      return patienceSeconds
    }
    guard let seconds = TimeInterval(word), seconds >= 0, seconds < 1e9 else {
      let text = "mlxcomm: MLXCOMM_END_TIMEOUT=\(word): expected seconds; using \(patienceSeconds)\n"
      FileHandle.standardError.write(Data(text.utf8))
      return patienceSeconds
    }
    return seconds
  }
}
