// Async versions of the operations; GroupBlocking.swift documents them. Cancelling the Task cancels the
// operation (Group.run).

extension Group {
  public func allReduce<P: Payload>(
    _ x: P, op: ReduceOperator = .sum, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.allReduce(x, op), timeout)
  }

  public func allSum<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allReduce(x, .sum), timeout)
  }

  public func allMax<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allReduce(x, .max), timeout)
  }

  public func allMin<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allReduce(x, .min), timeout)
  }

  public func reduce<P: Payload>(
    _ x: P, op: ReduceOperator = .sum, root: Int, timeout: Duration? = nil
  ) async throws -> P? {
    try await carryOut(prepared.reduce(x, op, root), timeout)
  }

  public func reduceScatter<P: Payload>(
    _ x: P, op: ReduceOperator = .sum, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.reduceScatter(x, op), timeout)
  }

  public func sumScatter<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.reduceScatter(x, .sum), timeout)
  }

  public func broadcast<P: Payload>(_ x: P, root: Int, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.broadcast(x, root), timeout)
  }

  public func allGather<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allGather(x), timeout)
  }

  public func allGatherV<P: Payload>(_ x: P, counts: [Int], timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allGatherV(x, counts), timeout)
  }

  public func gather<P: Payload>(_ x: P, root: Int, timeout: Duration? = nil) async throws -> P? {
    try await carryOut(prepared.gather(x, root), timeout)
  }

  public func scatter<P: Payload>(
    _ x: P?, count: Int, root: Int, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.scatter(x, count, root), timeout)
  }

  public func allToAll<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allToAll(x), timeout)
  }

  public func allToAllV<P: Payload>(
    _ x: P, sendCounts: [Int], receiveCounts: [Int], timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.allToAllV(x, sendCounts, receiveCounts), timeout)
  }

  public func send<P: Payload>(
    _ x: P, to destination: Int, tag: Int = 0, timeout: Duration? = nil
  ) async throws {
    try await carryOut(prepared.send(x, destination, tag), timeout)
  }

  public func recv<P: Payload>(
    _ type: P.Type = P.self, count: Int, from source: Int, tag: Int = 0, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.recv(type, count, source, tag), timeout)
  }

  public func recvLike<P: Payload>(
    _ x: P, from source: Int, tag: Int = 0, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.recv(P.self, x.count, source, tag), timeout)
  }

  public func barrier(timeout: Duration? = nil) async throws {
    try await carryOut(prepared.barrier(), timeout)
  }

  private var prepared: Prepare { Prepare(group: self) }

  private func carryOut<Result>(_ prepared: Prepared<Result>, _ timeout: Duration?) async throws -> Result {
    try await run(prepared.operation, timeout: timeout)
    return prepared.result()
  }
}
