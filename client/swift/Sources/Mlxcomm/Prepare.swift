// Shared by blocking and async operations: copies the input into the arena if necessary, and makes a buffer
// for the result unless it can replace that copy.

struct Prepared<Result> {
  let operation: Group.Operation
  let result: () -> Result
}

struct Prepare {
  let group: Group

  func allReduce<P: Payload>(_ x: P, _ op: ReduceOperator) throws -> Prepared<P> {
    try op.check(for: P.Element.dataType, in: "allReduce")
    let (input, isCopy) = try x.inArena(of: group)
    let output = isCopy ? input : try new(input.count)
    return Prepared(operation: .allReduce(input, into: output, op: op)) { P.made(of: output) }
  }

  func reduce<P: Payload>(_ x: P, _ op: ReduceOperator, _ root: Int) throws -> Prepared<P?> {
    let (input, isCopy) = try x.inArena(of: group)
    guard group.rank == root else {
      return Prepared(operation: .reduce(input, into: nil, op: op, root: root)) { nil }
    }
    let output = isCopy ? input : try new(input.count)
    return Prepared(operation: .reduce(input, into: output, op: op, root: root)) { P.made(of: output) }
  }

  func reduceScatter<P: Payload>(_ x: P, _ op: ReduceOperator) throws -> Prepared<P> {
    let (input, output) = try blocks(x, "reduceScatter") { $0 / group.size }
    return Prepared(operation: .reduceScatter(input, into: output, op: op)) { P.made(of: output) }
  }

  func broadcast<P: Payload>(_ x: P, _ root: Int) throws -> Prepared<P> {
    let (input, isCopy) = try x.inArena(of: group)
    let output = isCopy ? input : try new(input.count)
    let isRoot = group.rank == root
    return Prepared(operation: .broadcast(isRoot ? input : nil, into: output, root: root)) {
      P.made(of: output)
    }
  }

  func allGather<P: Payload>(_ x: P) throws -> Prepared<P> {
    let (input, _) = try x.inArena(of: group)
    let output: Buffer<P.Element> = try new(group.core.times(input.count))
    return Prepared(operation: .allGather(input, into: output)) { P.made(of: output) }
  }

  func allGatherV<P: Payload>(_ x: P, _ counts: [Int]) throws -> Prepared<P> {
    let total = try group.core.checkedTotal(counts, "allGatherV: counts")
    let (input, _) = try x.inArena(of: group)
    let output: Buffer<P.Element> = try new(total)
    return Prepared(operation: .allGatherV(input, into: output, counts: counts)) { P.made(of: output) }
  }

  func gather<P: Payload>(_ x: P, _ root: Int) throws -> Prepared<P?> {
    let (input, _) = try x.inArena(of: group)
    guard group.rank == root else {
      return Prepared(operation: .gather(input, into: nil, root: root)) { nil }
    }
    let output: Buffer<P.Element> = try new(group.core.times(input.count))
    return Prepared(operation: .gather(input, into: output, root: root)) { P.made(of: output) }
  }

  func scatter<P: Payload>(_ x: P?, _ count: Int, _ root: Int) throws -> Prepared<P> {
    let input = group.rank == root ? try x?.inArena(of: group).buffer : nil
    let output: Buffer<P.Element> = try new(count)
    return Prepared(operation: .scatter(input, into: output, root: root)) { P.made(of: output) }
  }

  func allToAll<P: Payload>(_ x: P) throws -> Prepared<P> {
    let (input, output) = try blocks(x, "allToAll") { $0 }
    return Prepared(operation: .allToAll(input, into: output)) { P.made(of: output) }
  }

  func allToAllV<P: Payload>(
    _ x: P, _ sendCounts: [Int], _ receiveCounts: [Int]
  ) throws -> Prepared<P> {
    let total = try group.core.checkedTotal(receiveCounts, "allToAllV: receiveCounts")
    let (input, _) = try x.inArena(of: group)
    let output: Buffer<P.Element> = try new(total)
    let operation = Group.Operation.allToAllV(
      input, into: output, sendCounts: sendCounts, receiveCounts: receiveCounts)
    return Prepared(operation: operation) { P.made(of: output) }
  }

  func send<P: Payload>(_ x: P, _ destination: Int, _ tag: Int) throws -> Prepared<Void> {
    try group.core.expectOtherRank(destination, "send: destination")
    let (input, _) = try x.inArena(of: group)
    return Prepared(operation: .send(input, to: destination, tag: tag)) {}
  }

  func recv<P: Payload>(_ type: P.Type, _ count: Int, _ source: Int, _ tag: Int) throws -> Prepared<P> {
    try group.core.expectOtherRank(source, "recv: source")
    let output: Buffer<P.Element> = try new(count)
    return Prepared(operation: .recv(into: output, from: source, tag: tag)) { P.made(of: output) }
  }

  func barrier() -> Prepared<Void> { Prepared(operation: .barrier) {} }

  private func new<Element>(_ count: Int) throws -> Buffer<Element> { try Buffer(count: count, in: group) }

  private func blocks<P: Payload>(
    _ x: P, _ name: String, _ outputCount: (Int) -> Int
  ) throws -> (Buffer<P.Element>, Buffer<P.Element>) {
    guard x.count.isMultiple(of: group.size) else {
      throw invalid("\(name): x: expected a block for each of \(group.size) ranks, got \(x.count) elements")
    }
    let (input, _) = try x.inArena(of: group)
    return (input, try new(outputCount(input.count)))
  }
}
