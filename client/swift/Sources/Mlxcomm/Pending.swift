// An operation that was begun.
//
//   begin ─▶ begun ─▶ awaited, by one thread ─▶ ended ─▶ all waiting threads get the result
//                          giving up is another thread's call, beside that wait
//
// libmlxcomm reports the end of an operation once, to the first caller: the thread that waits, or
// the one that gives it up. This class brings both together, so that all get the same result.
//
// Owner: the code that began it; if it is released without a wait, a thread of BlockingThreads
// waits. Memory: the buffers are held, and claimed, until it has ended.

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
  // Giving up: whether it is under way, how it ended, and that the waiting thread came too late.
  private var isGivenUp = false
  private var endOfGivingUp: Ending?
  private var waitCameTooLate = false

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
        "\(operation.name): \(what): a buffer of another job or connection than group \(core.name)'s; "
          + "expected one that was made by Buffer(..., in: group)")
    }
  }

  private static func claim(_ operation: Group.Operation) throws -> [(Memory, Memory.Claim)] {
    let (input, output) = (operation.input, operation.output)
    var isInPlace = false
    if let input, let output, input.memory === output.memory {
      isInPlace = input.bytes == output.bytes
      guard isInPlace || !input.bytes.overlaps(output.bytes) else {
        throw invalid("\(operation.name): input and output overlap: expected the same buffer, or another one")
      }
    }
    var claims: [(Memory, Memory.Claim)] = []
    func add(_ region: Group.Operation.Region, _ what: String, isExclusive: Bool) throws {
      guard let claim = region.memory.claim(region.bytes, isExclusive: isExclusive) else {
        for (memory, claim) in claims { memory.release(claim) }
        throw invalid(
          "\(operation.name): \(what): an operation that is under way uses these elements, or another thread "
            + "does; wait for that first, or use another buffer")
      }
      claims.append((region.memory, claim))
    }
    if let output { try add(output, "output", isExclusive: true) }
    if let input, !isInPlace { try add(input, "input", isExclusive: false) }
    return claims
  }

  deinit {
    // Its buffers may go only when nothing touches them, and other ranks count on its end.
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

  /// Blocks until it has ended, and throws if it failed.
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

  /// Returns when it has ended, and throws if it failed. Cancelling the Task gives it up, which
  /// fails the group on all ranks; this returns when nothing touches the buffers any more.
  public func wait() async throws {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { tell($0) }
    } onCancel: {
      // Not in the cancelling thread, because the daemon has to answer.
      do { try BlockingThreads.shared.run { self.giveUp(timeout: 0) } } catch { giveUp(timeout: 0) }
    }
  }

  /// Whether it has ended. Does not wait, and does not throw: `wait` does.
  public var hasEnded: Bool {
    condition.lock()
    defer { condition.unlock() }
    if case .begun = state, let ending = core.test(ticket) { finish(ending) }
    if case .ended = state { return true }
    return false
  }

  /// Gives it up, which fails the group on all ranks, and waits until nothing touches its buffers,
  /// for at most `timeout` (nil: 10 s). True: it was given up; false: it had succeeded before.
  ///
  /// Throws DEADLINE_EXCEEDED, after which it is still under way, and any other failure.
  public func cancel(timeout: Duration? = nil) throws -> Bool {
    let patience = try nanoseconds(timeout)
    if case .failure(let error)? = giveUp(timeout: patience), error.code == .deadlineExceeded { throw error }
    do {
      try wait()
      return false
    } catch let error as MlxcommError where error.code == .cancelled {
      return true
    }
  }

  private func tell(_ continuation: CheckedContinuation<Void, any Error>) {
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

  // With the lock, in state begun.
  private func awaitEndElsewhere() throws {
    try BlockingThreads.shared.run { self.awaitEnd() }
    state = .awaited
  }

  // By the one thread that waits.
  private func awaitEnd() {
    let ending = core.wait(ticket)
    condition.lock()
    defer { condition.unlock() }
    if isGivenUp, case .failure(let error) = ending, error.code == .invalidArgument {
      waitCameTooLate = true  // The thread that gives it up got the end.
      if let told = endOfGivingUp { finish(told) }
    } else {
      finish(ending)
    }
  }

  @discardableResult
  private func giveUp(timeout: UInt64) -> Result<Void, MlxcommError>? {
    condition.lock()
    if case .ended = state {
      condition.unlock()
      return nil
    }
    if isGivenUp {  // By another thread, at this moment.
      condition.unlock()
      return nil
    }
    if case .begun = state {
      do { try awaitEndElsewhere() } catch {
        condition.unlock()
        return .failure(error as? MlxcommError ?? MlxcommError(.internalError, "\(error)"))
      }
    }
    isGivenUp = true
    condition.unlock()
    let told = core.cancel(ticket, timeout: timeout)
    condition.lock()
    defer { condition.unlock() }
    if case .failure(let error) = told, error.code == .deadlineExceeded {
      isGivenUp = false  // It may be tried again.
    } else {
      endOfGivingUp = told
    }
    if waitCameTooLate { finish(told) }
    return told
  }

  // For callers without the lock.
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

  // A Bool that another program sent may be any byte, which is undefined in Swift.
  private static func makeBools(of operation: Group.Operation) {
    guard operation.writesBools, let output = operation.output else { return }
    let bytes = output.start.assumingMemoryBound(to: UInt8.self)
    for index in 0..<output.bytes.count where bytes[index] > 1 { bytes[index] = 1 }
  }
}
