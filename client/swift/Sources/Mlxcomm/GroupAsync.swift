// The operations by name, for async functions. Cancelling the Task gives an operation up (Group.run).

extension Group {
  /// The inputs of all ranks, combined.
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

  /// As allReduce, at rank `root` alone; nil elsewhere.
  public func reduce<P: Payload>(
    _ x: P, op: ReduceOperator = .sum, root: Int, timeout: Duration? = nil
  ) async throws -> P? {
    try await carryOut(prepared.reduce(x, op, root), timeout)
  }

  /// x: a block for each rank. The result is the own block of what allReduce would give.
  public func reduceScatter<P: Payload>(
    _ x: P, op: ReduceOperator = .sum, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.reduceScatter(x, op), timeout)
  }

  public func sumScatter<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.reduceScatter(x, .sum), timeout)
  }

  /// The root's x; on the others only its length counts.
  public func broadcast<P: Payload>(_ x: P, root: Int, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.broadcast(x, root), timeout)
  }

  /// The x of all ranks one after the other, in order of rank.
  public func allGather<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allGather(x), timeout)
  }

  /// The same with counts[r] elements from rank r; `counts` is the same on all ranks.
  public func allGatherV<P: Payload>(_ x: P, counts: [Int], timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allGatherV(x, counts), timeout)
  }

  /// As allGather, at rank `root` alone; nil elsewhere.
  public func gather<P: Payload>(_ x: P, root: Int, timeout: Duration? = nil) async throws -> P? {
    try await carryOut(prepared.gather(x, root), timeout)
  }

  /// The own block, of `count` elements, of the root's x, which other ranks need not have.
  public func scatter<P: Payload>(
    _ x: P?, count: Int, root: Int, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.scatter(x, count, root), timeout)
  }

  /// Block r of x goes to rank r; block r of the result comes from rank r.
  public func allToAll<P: Payload>(_ x: P, timeout: Duration? = nil) async throws -> P {
    try await carryOut(prepared.allToAll(x), timeout)
  }

  /// sendCounts[r] elements of x go to rank r; receiveCounts[r] of the result come from it.
  public func allToAllV<P: Payload>(
    _ x: P, sendCounts: [Int], receiveCounts: [Int], timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.allToAllV(x, sendCounts, receiveCounts), timeout)
  }

  /// The n-th send to a rank with a tag meets the n-th recv there from this rank with that tag.
  public func send<P: Payload>(
    _ x: P, to destination: Int, tag: Int = 0, timeout: Duration? = nil
  ) async throws {
    try await carryOut(prepared.send(x, destination, tag), timeout)
  }

  /// What `source` sends: `count` elements, as a P.
  public func recv<P: Payload>(
    _ type: P.Type = P.self, count: Int, from source: Int, tag: Int = 0, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.recv(type, count, source, tag), timeout)
  }

  /// The same, with the length of x.
  public func recvLike<P: Payload>(
    _ x: P, from source: Int, tag: Int = 0, timeout: Duration? = nil
  ) async throws -> P {
    try await carryOut(prepared.recv(P.self, x.count, source, tag), timeout)
  }

  /// Returns when every rank has called it.
  public func barrier(timeout: Duration? = nil) async throws {
    try await carryOut(prepared.barrier(), timeout)
  }

  private var prepared: Prepare { Prepare(group: self) }

  private func carryOut<Result>(_ prepared: Prepared<Result>, _ timeout: Duration?) async throws -> Result {
    try await run(prepared.operation, timeout: timeout)
    return prepared.result()
  }
}
