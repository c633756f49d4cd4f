// A session with the daemon, and the job that a process has joined over it.
//
//   Group ─▶ Job ─▶ Connection ◀─ Memory ◀─ Buffer
//
// ARC closes them in that order, whichever of them a program releases first: parts of a group
// before the world group, that before the session, and the session only when its last buffer is
// gone.
//
// Thread: any. The handles are libmlxcomm's, which may be used from any thread.

import CMlxcomm
import Foundation

struct Handle: @unchecked Sendable {  // What it points to may be used from any thread (mlxcomm.h).
  let pointer: OpaquePointer
}

/// A session with the daemon of this machine. Groups make one of their own; use it to join several
/// jobs, or to ask for less address space.
public final class Connection: Sendable {
  let handle: Handle

  /// - Parameters:
  ///   - socket: the daemon's; nil: $MLXCOMM_SOCKET, else the service's, else a private daemon.
  ///   - arenaBytes: address space for buffers; nil: as much as the daemon allows.
  ///   - timeout: nil: 10 s.
  ///   - startPrivateDaemon: whether one is started where there is none and no socket was named.
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
  guard !string.utf8.contains(0) else { throw invalid("\(string.debugDescription): holds a NUL") }
  return try string.withCString(body)
}

/// A job that this process has joined: its world groups (one, and those that it has shrunk to), and
/// the operations that are under way in any of its groups.
final class Job: @unchecked Sendable {  // All state is behind `condition`.
  let connection: Connection

  private let condition = NSCondition()
  private var worlds: [Handle]
  private var underWay = 0
  private var ended = 0
  private var isClosed = false

  /// From now on the job closes the world group's handle.
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
        throw MlxcommError(.cancelled, "this process ends, and has left the job")
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

  /// Waits for operations that were begun, because other ranks still need them; then leaves the job
  /// in an orderly way. Gives up after `patience` without the end of any: then the others learn
  /// that a process has died.
  func close(patience: TimeInterval) {
    condition.lock()
    defer { condition.unlock() }
    let told = Date(timeIntervalSinceNow: 10)
    var hasTold = false
    var before = ended
    var until = Date(timeIntervalSinceNow: patience)
    while underWay > 0 && Date() < until {
      _ = condition.wait(until: hasTold ? until : min(told, until))
      if ended != before {
        before = ended
        until = Date(timeIntervalSinceNow: patience)
      }
      if underWay > 0 && !hasTold && Date() >= told {
        hasTold = true
        say("the program has ended; \(underWay) calls that it began are still under way. "
          + "mlxcommctl status says whom they wait for; Ctrl-C ends the wait")
      }
    }
    isClosed = true
    if underWay > 0 {
      say("\(underWay) calls have not ended in \(patience) s after the end of the program: given up")
      return
    }
    // The last stands for the job. No thread is in a call on a group, and none begins one.
    if let world = worlds.popLast() { mlxcomm_group_close(world.pointer) }
    worlds.removeAll()
  }

  private func say(_ text: String) {
    FileHandle.standardError.write(Data("mlxcomm: \(text)\n".utf8))
  }
}

/// Leaves the jobs of this process in an orderly way when it ends, because Swift does not
/// deinitialize globals: else the other ranks would see a dead process. A trap, abort() or a signal
/// does not get here.
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
    guard getpid() == jobs.pid else { return }  // A forked child has nothing of its parent's.
    let open = jobs.lock.withLock { jobs.known.compactMap(\.job) }
    for job in open { job.close(patience: patience()) }
  }

  private static func patience() -> TimeInterval {
    guard let word = ProcessInfo.processInfo.environment["MLXCOMM_END_TIMEOUT"], !word.isEmpty else {
      return patienceSeconds
    }
    guard let seconds = TimeInterval(word), seconds >= 0, seconds < 1e9 else {
      let text = "mlxcomm: MLXCOMM_END_TIMEOUT=\(word): expected seconds; it is \(patienceSeconds)\n"
      FileHandle.standardError.write(Data(text.utf8))
      return patienceSeconds
    }
    return seconds
  }
}
