// An operation in progress.
//
//   begin ─▶ begun ─▶ awaited by one thread (another may cancel it) ─▶ ended: all waiters get the result
//
// libmlxcomm reports the end of an operation only once: to the thread that waits or to the one that cancels.
// This class passes the result to all callers.
//
// Owner: the code that began it; if it is released without a wait, a thread of BlockingThreads waits. Memory:
// keeps and claims the buffers until the operation has ended.

import CMlxcomm
import Foundation

public final class Pending: @unchecked Sendable {  // All state that changes is behind `condition`.
  private typealias Ending = Result<Void, MlxcommError>

  private enum State {
    case begun
    case awaited
    case ended(Ending)
  }

  private let core: GroupCore
  private let operation: Group.Operation
  private let ticket: UInt64
  private let claims: [(Memory, Memory.Claim)]

  private let condition = NSCondition()
  private var state = State.begun
  private var continuations: [CheckedContinuation<Void, any Error>] = []
  // A cancellation has begun; its result; and whether the waiting thread missed the result.
  private var isCancelled = false
  private var cancelResult: Ending?
  private var waitMissedResult = false

  init(_ core: GroupCore, _ operation: Group.Operation, timeout: Duration?) throws {
    let wait = try nanoseconds(timeout)
    try operation.check(core)
    try Self.checkPlace(of: operation, core)
    let claims = try Self.claim(operation)
    do {
      ticket = try core.begin(operation, timeout: wait)
    } catch {
      for (memory, claim) in claims { memory.release(claim) }
      throw error
    }
    self.core = core
    self.operation = operation
    self.claims = claims
    if core.isAlone { end(.success(())) }
  }

  private static func checkPlace(of operation: Group.Operation, _ core: GroupCore) throws {
    for (what, region) in [("input", operation.input), ("output", operation.output)] {
      guard let region, region.memory.connection !== core.job?.connection else { continue }
      throw invalid(
        "\(operation.name): \(what): expected a buffer made by Buffer(..., in: group), got one of another "
          + "job or connection than group \(core.name)'s")
    }
  }

  private static func claim(_ operation: Group.Operation) throws -> [(Memory, Memory.Claim)] {
    let (input, output) = (operation.input, operation.output)
    var isInPlace = false
    if let input, let output, input.memory === output.memory {
      isInPlace = input.bytes == output.bytes
      guard isInPlace || !input.bytes.overlaps(output.bytes) else {
        throw invalid("\(operation.name): input and output overlap: expected the same or separate buffers")
      }
    }
    var claims: [(Memory, Memory.Claim)] = []
    func add(_ region: Group.Operation.Region, _ what: String, isExclusive: Bool) throws {
      guard let claim = region.memory.claim(region.bytes, isExclusive: isExclusive) else {
        for (memory, claim) in claims { memory.release(claim) }
        throw invalid(
          "\(operation.name): \(what): another operation or thread is using these elements: wait for it, or "
            + "use another buffer")
      }
      claims.append((region.memory, claim))
    }
    if let output { try add(output, "output", isExclusive: true) }
    if let input, !isInPlace { try add(input, "input", isExclusive: false) }
    return claims
  }

  deinit {
    // The buffers must live until the operation ends, and other ranks need it to end.
    guard case .begun = state else { return }
    let (core, operation, ticket, claims) = (self.core, self.operation, self.ticket, self.claims)
    let wait: @Sendable () -> Void = {
      _ = core.wait(ticket)
      Self.makeBools(of: operation)
      for (memory, claim) in claims { memory.release(claim) }
      core.job?.leave()
    }
    do { try BlockingThreads.shared.run(wait) } catch { wait() }
  }

  /// Blocks until the operation has ended; throws if it failed.
  public func wait() throws {
    condition.lock()
    defer { condition.unlock() }
    while true {
      switch state {
      case .ended(let ending): return try ending.get()
      case .awaited: condition.wait()
      case .begun:
        state = .awaited
        condition.unlock()
        awaitEnd()
        condition.lock()
      }
    }
  }

  /// Waits until the operation has ended; throws if it failed. Cancelling the Task cancels it, which fails
  /// the group on all ranks, and returns once the buffers are free.
  public func wait() async throws {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { resumeAtEnd($0) }
    } onCancel: {
      // On another thread, because it waits for the daemon.
      do { try BlockingThreads.shared.run { self.cancelOnce(timeout: 0) } } catch { cancelOnce(timeout: 0) }
    }
  }

  /// Whether the operation has ended. Does not wait, and does not throw its error.
  public var hasEnded: Bool {
    condition.lock()
    defer { condition.unlock() }
    if case .begun = state, let ending = core.test(ticket) { finish(ending) }
    if case .ended = state { return true }
    return false
  }

  /// Cancels the operation, which fails the group on all ranks, and waits at most `timeout` (nil: 10 s) until
  /// its buffers are free. Returns false if it had succeeded before.
  ///
  /// Throws DEADLINE_EXCEEDED if it is still in progress then, and any other failure.
  public func cancel(timeout: Duration? = nil) throws -> Bool {
    let patience = try nanoseconds(timeout)
    if case .failure(let error)? = cancelOnce(timeout: patience), error.code == .deadlineExceeded {
      throw error
    }
    do {
      try wait()
      return false
    } catch let error as MlxcommError where error.code == .cancelled {
      return true
    }
  }

  private func resumeAtEnd(_ continuation: CheckedContinuation<Void, any Error>) {
    condition.lock()
    defer { condition.unlock() }
    switch state {
    case .ended(let ending): continuation.resume(with: ending.mapError { $0 as any Error })
    case .awaited: continuations.append(continuation)
    case .begun:
      do {
        try awaitEndElsewhere()
        continuations.append(continuation)
      } catch {
        continuation.resume(throwing: error)
      }
    }
  }

  // Call with the lock, in state begun.
  private func awaitEndElsewhere() throws {
    try BlockingThreads.shared.run { self.awaitEnd() }
    state = .awaited
  }

  // Called on the one waiting thread.
  private func awaitEnd() {
    let ending = core.wait(ticket)
    condition.lock()
    defer { condition.unlock() }
    if isCancelled, case .failure(let error) = ending, error.code == .invalidArgument {
      waitMissedResult = true  // The cancelling thread got the result.
      if let cancelResult { finish(cancelResult) }
    } else {
      finish(ending)
    }
  }

  @discardableResult
  private func cancelOnce(timeout: UInt64) -> Result<Void, MlxcommError>? {
    condition.lock()
    if case .ended = state {
      condition.unlock()
      return nil
    }
    if isCancelled {  // Another thread cancelled it.
      condition.unlock()
      return nil
    }
    if case .begun = state {
      do { try awaitEndElsewhere() } catch {
        condition.unlock()
        return .failure(error as? MlxcommError ?? MlxcommError(.internalError, "\(error)"))
      }
    }
    isCancelled = true
    condition.unlock()
    let result = core.cancel(ticket, timeout: timeout)
    condition.lock()
    defer { condition.unlock() }
    if case .failure(let error) = result, error.code == .deadlineExceeded {
      isCancelled = false  // The caller may try again.
    } else {
      cancelResult = result
    }
    if waitMissedResult { finish(result) }
    return result
  }

  // Call without the lock.
  private func end(_ ending: Ending) {
    condition.lock()
    finish(ending)
    condition.unlock()
  }

  private func finish(_ ending: Ending) {
    if case .ended = state { return }
    Self.makeBools(of: operation)
    for (memory, claim) in claims { memory.release(claim) }
    core.job?.leave()
    state = .ended(ending)
    condition.broadcast()
    for continuation in continuations { continuation.resume(with: ending.mapError { $0 as any Error }) }
    continuations = []
  }

  // Another program may have sent any byte, but a Bool other than 0 and 1 is undefined in Swift.
  private static func makeBools(of operation: Group.Operation) {
    guard operation.writesBools, let output = operation.output else { return }
    let bytes = output.start.assumingMemoryBound(to: UInt8.self)
    for index in 0..<output.bytes.count where bytes[index] > 1 { bytes[index] = 1 }
  }
}
