// Blocking versions of the operations. In async functions the compiler chooses those of GroupAsync.swift.

extension Group {
  /// Combines x over all ranks.
  public func allReduce<P: Payload>(_ x: P, op: ReduceOperator = .sum, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.allReduce(x, op), timeout)
  }

  public func allSum<P: Payload>(_ x: P, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.allReduce(x, .sum), timeout)
  }

  public func allMax<P: Payload>(_ x: P, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.allReduce(x, .max), timeout)
  }

  public func allMin<P: Payload>(_ x: P, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.allReduce(x, .min), timeout)
  }

  /// Like allReduce, but only rank `root` gets the result; nil elsewhere.
  public func reduce<P: Payload>(
    _ x: P, op: ReduceOperator = .sum, root: Int, timeout: Duration? = nil
  ) throws -> P? {
    try carryOut(prepared.reduce(x, op, root), timeout)
  }

  /// x: a block for each rank. Returns this rank's block of what allReduce would return.
  public func reduceScatter<P: Payload>(
    _ x: P, op: ReduceOperator = .sum, timeout: Duration? = nil
  ) throws -> P {
    try carryOut(prepared.reduceScatter(x, op), timeout)
  }

  public func sumScatter<P: Payload>(_ x: P, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.reduceScatter(x, .sum), timeout)
  }

  /// Returns the root's x; on other ranks only the length of x matters.
  public func broadcast<P: Payload>(_ x: P, root: Int, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.broadcast(x, root), timeout)
  }

  /// Concatenates the x of all ranks, in order of rank.
  public func allGather<P: Payload>(_ x: P, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.allGather(x), timeout)
  }

  /// Like allGather, with counts[r] elements from rank r; `counts` must be the same on all ranks.
  public func allGatherV<P: Payload>(_ x: P, counts: [Int], timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.allGatherV(x, counts), timeout)
  }

  /// Like allGather, but only rank `root` gets the result; nil elsewhere.
  public func gather<P: Payload>(_ x: P, root: Int, timeout: Duration? = nil) throws -> P? {
    try carryOut(prepared.gather(x, root), timeout)
  }

  /// Returns this rank's block, of `count` elements, of the root's x; other ranks may pass nil.
  public func scatter<P: Payload>(_ x: P?, count: Int, root: Int, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.scatter(x, count, root), timeout)
  }

  /// Block r of x goes to rank r; block r of the result comes from rank r.
  public func allToAll<P: Payload>(_ x: P, timeout: Duration? = nil) throws -> P {
    try carryOut(prepared.allToAll(x), timeout)
  }

  /// sendCounts[r] elements of x go to rank r, receiveCounts[r] of the result come from it.
  public func allToAllV<P: Payload>(
    _ x: P, sendCounts: [Int], receiveCounts: [Int], timeout: Duration? = nil
  ) throws -> P {
    try carryOut(prepared.allToAllV(x, sendCounts, receiveCounts), timeout)
  }

  /// The n-th send to a rank with a tag matches the n-th recv there from this rank with that tag.
  public func send<P: Payload>(_ x: P, to destination: Int, tag: Int = 0, timeout: Duration? = nil) throws {
    try carryOut(prepared.send(x, destination, tag), timeout)
  }

  /// Receives `count` elements from `source`, as a P.
  public func recv<P: Payload>(
    _ type: P.Type = P.self, count: Int, from source: Int, tag: Int = 0, timeout: Duration? = nil
  ) throws -> P {
    try carryOut(prepared.recv(type, count, source, tag), timeout)
  }

  /// Like recv, with the length of x.
  public func recvLike<P: Payload>(
    _ x: P, from source: Int, tag: Int = 0, timeout: Duration? = nil
  ) throws -> P {
    try carryOut(prepared.recv(P.self, x.count, source, tag), timeout)
  }

  /// Returns when every rank has called it.
  public func barrier(timeout: Duration? = nil) throws {
    try carryOut(prepared.barrier(), timeout)
  }

  private var prepared: Prepare { Prepare(group: self) }

  private func carryOut<Result>(_ prepared: Prepared<Result>, _ timeout: Duration?) throws -> Result {
    try run(prepared.operation, timeout: timeout)
    return prepared.result()
  }
}
