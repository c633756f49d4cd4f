// Threads for libmlxcomm's blocking calls in async functions. Swift's own threads, one for each core, must
// not block, and Dispatch has too few. Threads are reused, and exit after some idle seconds.

import CMlxcomm
import Foundation

final class BlockingThreads: @unchecked Sendable {  // All state is behind `condition`.
  static let shared = BlockingThreads()

  typealias Work = @Sendable () -> Void
  private static let idleSeconds: TimeInterval = 10
  private static let stackBytes = 512 << 10

  private let condition = NSCondition()
  private var queued: [Work] = []
  private var idle = 0

  /// Throws, without running the work, if the system has no more threads.
  func run(_ work: @escaping Work) throws {
    condition.lock()
    defer { condition.unlock() }
    if idle > queued.count {
      queued.append(work)
      condition.signal()
      return
    }
    try start(work)
  }

  private func start(_ first: @escaping Work) throws {
    let argument = Unmanaged.passRetained(Start(first))
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    pthread_attr_setstacksize(&attributes, Self.stackBytes)
    #if canImport(Darwin)
      var thread: pthread_t?
      let code = pthread_create(&thread, &attributes, { BlockingThreads.begin($0) }, argument.toOpaque())
    #else
      var thread = pthread_t()
      let code = pthread_create(&thread, &attributes, { BlockingThreads.begin($0!) }, argument.toOpaque())
    #endif
    if code != 0 {
      argument.release()
      throw MlxcommError(
        .resourceExhausted,
        "cannot start a thread for a blocking call: \(String(cString: strerror(code))). Await fewer "
          + "operations at once, or raise the limit of threads (ulimit -u)")
    }
  }

  private final class Start {
    let work: Work
    init(_ work: @escaping Work) { self.work = work }
  }

  private static func begin(_ argument: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
    Unmanaged<Start>.fromOpaque(argument).takeRetainedValue().work()
    while let work = shared.next() { work() }
    return nil
  }

  private func next() -> Work? {
    let until = Date(timeIntervalSinceNow: Self.idleSeconds)
    condition.lock()
    defer { condition.unlock() }
    idle += 1
    defer { idle -= 1 }
    while queued.isEmpty {
      if !condition.wait(until: until) && queued.isEmpty { return nil }
    }
    return queued.removeFirst()
  }
}

/// Interrupts the blocking call of one thread. libmlxcomm calls a connection's one callback about every 50 ms
/// on the waiting thread, so the flag is thread-specific.
final class Interruption: @unchecked Sendable {  // `raised` is behind `lock`.
  private static let ofThread: pthread_key_t = {
    var key = pthread_key_t()
    let code = pthread_key_create(&key, nil)
    precondition(code == 0, "mlxcomm: no thread-specific data: \(String(cString: strerror(code)))")
    return key
  }()

  private let lock = NSLock()
  private var raised = false

  func raise() { lock.withLock { raised = true } }

  func during<Value>(_ body: () throws -> Value) rethrows -> Value {
    pthread_setspecific(Self.ofThread, Unmanaged.passUnretained(self).toOpaque())
    defer { pthread_setspecific(Self.ofThread, nil) }
    return try body()
  }

  /// The callback for mlxcomm_connect_options.interrupted.
  static let asked: @convention(c) (UnsafeMutableRawPointer?) -> Int32 = { _ in
    guard let flag = pthread_getspecific(Interruption.ofThread) else { return 0 }
    let interruption = Unmanaged<Interruption>.fromOpaque(flag).takeUnretainedValue()
    return interruption.lock.withLock { interruption.raised } ? 1 : 0
  }
}

/// Awaits a blocking call; cancelling the Task interrupts it.
func awaitBlocking<Value: Sendable>(
  _ body: @escaping @Sendable () throws -> Value
) async throws -> Value {
  try Task.checkCancellation()
  let interruption = Interruption()
  return try await withTaskCancellationHandler {
    try await withCheckedThrowingContinuation { continuation in
      do {
        try BlockingThreads.shared.run {
          continuation.resume(with: Result { try interruption.during(body) })
        }
      } catch {
        continuation.resume(throwing: error)
      }
    }
  } onCancel: {
    interruption.raise()
  }
}
