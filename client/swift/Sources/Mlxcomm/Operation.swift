// Describes an operation on buffers: which elements it reads and writes, how its arguments are checked, and
// which call of libmlxcomm begins it.

import CMlxcomm

extension Group {
  /// The argument of `begin` and `run`. Counts are in elements. Input and output must not overlap, except
  /// that they may be the same if the operation is marked "in place".
  public struct Operation: Sendable {
    struct Region: Sendable {
      let memory: Memory
      let bytes: Range<Int>

      init(_ buffer: Buffer<some Scalar>) {
        memory = buffer.memory
        bytes = buffer.bytes
      }
      var start: UnsafeMutableRawPointer { memory.base + bytes.lowerBound }
    }
    /// The last arguments of each call of libmlxcomm.
    struct Begin {
      let group: OpaquePointer
      let timeout: UInt64
      let ticket: UnsafeMutablePointer<UInt64>
      let error: UnsafeMutablePointer<mlxcomm_error>
    }

    let name: String
    var input: Region?
    var output: Region?
    var writesBools = false
    let check: @Sendable (GroupCore) throws -> Void
    let begin: @Sendable (Begin) -> mlxcomm_code
  }
}

extension Group.Operation {
  /// output: the combined inputs of all ranks. In place.
  public static func allReduce<E>(
    _ input: Buffer<E>, into output: Buffer<E>, op: ReduceOperator = .sum
  ) -> Self {
    make("allReduce", input, output) { _ in
      try op.check(for: E.dataType, in: "allReduce")
      try expect(output.count, input.count, "allReduce: output")
    } begin: { from, to, c in
      mlxcomm_all_reduce(
        c.group, from, to, UInt64(input.count), E.dataType.inC, op.inC, c.timeout, c.ticket, c.error)
    }
  }

  /// Like allReduce, but only rank `root` needs an output. In place.
  public static func reduce<E>(
    _ input: Buffer<E>, into output: Buffer<E>?, op: ReduceOperator = .sum, root: Int
  ) -> Self {
    make("reduce", input, output, onlyAt: root) { group in
      try op.check(for: E.dataType, in: "reduce")
      try group.expectRank(root, "reduce: root")
      if group.rank == root { try expect(output?.count, input.count, "reduce: output") }
    } begin: { from, to, c in
      mlxcomm_reduce(
        c.group, from, to, UInt64(input.count), E.dataType.inC, op.inC, UInt32(root), c.timeout, c.ticket,
        c.error)
    }
  }

  /// input: a block for each rank; output: this rank's block of the combined inputs.
  public static func reduceScatter<E>(
    _ input: Buffer<E>, into output: Buffer<E>, op: ReduceOperator = .sum
  ) -> Self {
    make("reduceScatter", input, output) { group in
      try op.check(for: E.dataType, in: "reduceScatter")
      try expect(input.count, group.times(output.count), "reduceScatter: input")
    } begin: { from, to, c in
      mlxcomm_reduce_scatter(
        c.group, from, to, UInt64(output.count), E.dataType.inC, op.inC, c.timeout, c.ticket, c.error)
    }
  }

  /// output: the root's input; other ranks need no input. In place.
  public static func broadcast<E>(_ input: Buffer<E>?, into output: Buffer<E>, root: Int) -> Self {
    make("broadcast", input, output) { group in
      try group.expectRank(root, "broadcast: root")
      if group.rank == root { try expect(input?.count, output.count, "broadcast: input") }
    } begin: { from, to, c in
      mlxcomm_broadcast(
        c.group, from, to, UInt64(output.count), E.dataType.inC, UInt32(root), c.timeout, c.ticket, c.error)
    }
  }

  /// output: the inputs of all ranks, in order of rank.
  public static func allGather<E>(_ input: Buffer<E>, into output: Buffer<E>) -> Self {
    make("allGather", input, output) { group in
      try expect(output.count, group.times(input.count), "allGather: output")
    } begin: { from, to, c in
      mlxcomm_all_gather(
        c.group, from, to, UInt64(input.count), E.dataType.inC, c.timeout, c.ticket, c.error)
    }
  }

  /// Like allGather, with counts[r] elements from rank r; `counts` must be the same on all ranks.
  public static func allGatherV<E>(_ input: Buffer<E>, into output: Buffer<E>, counts: [Int]) -> Self {
    make("allGatherV", input, output) { group in
      let total = try group.checkedTotal(counts, "allGatherV: counts")
      try expect(input.count, counts[group.rank], "allGatherV: input")
      try expect(output.count, total, "allGatherV: output")
    } begin: { from, to, c in
      mlxcomm_all_gather_v(
        c.group, from, to, counts.map(UInt64.init), E.dataType.inC, c.timeout, c.ticket, c.error)
    }
  }

  /// Like allGather, but only rank `root` needs an output.
  public static func gather<E>(_ input: Buffer<E>, into output: Buffer<E>?, root: Int) -> Self {
    make("gather", input, output, onlyAt: root) { group in
      try group.expectRank(root, "gather: root")
      if group.rank == root { try expect(output?.count, group.times(input.count), "gather: output") }
    } begin: { from, to, c in
      mlxcomm_gather(
        c.group, from, to, UInt64(input.count), E.dataType.inC, UInt32(root), c.timeout, c.ticket, c.error)
    }
  }

  /// output: this rank's block of the root's input; other ranks need no input.
  public static func scatter<E>(_ input: Buffer<E>?, into output: Buffer<E>, root: Int) -> Self {
    make("scatter", input, output) { group in
      try group.expectRank(root, "scatter: root")
      if group.rank == root { try expect(input?.count, group.times(output.count), "scatter: input") }
    } begin: { from, to, c in
      mlxcomm_scatter(
        c.group, from, to, UInt64(output.count), E.dataType.inC, UInt32(root), c.timeout, c.ticket, c.error)
    }
  }

  /// Block r of the input goes to rank r, block r of the output comes from rank r.
  public static func allToAll<E>(_ input: Buffer<E>, into output: Buffer<E>) -> Self {
    make("allToAll", input, output) { group in
      guard input.count.isMultiple(of: group.size) else {
        throw invalid("allToAll: input: expected a block for each of \(group.size) ranks, got \(input.count)")
      }
      try expect(output.count, input.count, "allToAll: output")
    } begin: { from, to, c in
      mlxcomm_all_to_all(
        c.group, from, to, UInt64(input.count) / UInt64(mlxcomm_size(c.group)), E.dataType.inC, c.timeout,
        c.ticket, c.error)
    }
  }

  /// sendCounts[r] elements go to rank r, receiveCounts[r] come from rank r, both in order of rank.
  public static func allToAllV<E>(
    _ input: Buffer<E>, into output: Buffer<E>, sendCounts: [Int], receiveCounts: [Int]
  ) -> Self {
    make("allToAllV", input, output) { group in
      try expect(
        input.count, try group.checkedTotal(sendCounts, "allToAllV: sendCounts"), "allToAllV: input")
      try expect(
        output.count, try group.checkedTotal(receiveCounts, "allToAllV: receiveCounts"),
        "allToAllV: output")
      try expect(
        receiveCounts[group.rank], sendCounts[group.rank],
        "allToAllV: receiveCounts[\(group.rank)] (this rank's own)")
    } begin: { from, to, c in
      mlxcomm_all_to_all_v(
        c.group, from, to, sendCounts.map(UInt64.init), receiveCounts.map(UInt64.init), E.dataType.inC,
        c.timeout, c.ticket, c.error)
    }
  }

  /// The n-th send to a rank with a tag matches the n-th recv there from this rank with that tag.
  public static func send<E>(_ input: Buffer<E>, to destination: Int, tag: Int = 0) -> Self {
    make("send", input, Buffer<E>?.none) { group in
      try group.expectOtherRank(destination, "send: destination")
      try expectTag(tag, "send: tag")
    } begin: { from, _, c in
      mlxcomm_send(
        c.group, from, UInt64(input.count), E.dataType.inC, UInt32(destination), UInt32(tag), c.timeout,
        c.ticket, c.error)
    }
  }

  public static func recv<E>(into output: Buffer<E>, from source: Int, tag: Int = 0) -> Self {
    make("recv", Buffer<E>?.none, output) { group in
      try group.expectOtherRank(source, "recv: source")
      try expectTag(tag, "recv: tag")
    } begin: { _, to, c in
      mlxcomm_recv(
        c.group, to, UInt64(output.count), E.dataType.inC, UInt32(source), UInt32(tag), c.timeout, c.ticket,
        c.error)
    }
  }

  /// Ends when every rank has begun it.
  public static var barrier: Self {
    make("barrier", Buffer<UInt8>?.none, Buffer<UInt8>?.none, check: { _ in }) { _, _, c in
      mlxcomm_barrier(c.group, c.timeout, c.ticket, c.error)
    }
  }

  private static func make<E>(
    _ name: String, _ input: Buffer<E>?, _ output: Buffer<E>?, onlyAt root: Int? = nil,
    check: @escaping @Sendable (GroupCore) throws -> Void,
    begin: @escaping @Sendable (UnsafeRawPointer?, UnsafeMutableRawPointer?, Begin) -> mlxcomm_code
  ) -> Self {
    let from = input.map(Region.init)
    let to = output.map(Region.init)
    return Self(
      name: name, input: from, output: to, writesBools: E.dataType == .bool, check: check
    ) { begin(from?.start, to?.start, $0) }
  }

  private static func expect(_ count: Int?, _ expected: Int, _ what: String) throws {
    guard let count else { throw invalid("\(what): expected \(expected) elements, got none") }
    guard count == expected else { throw invalid("\(what): expected \(expected) elements, got \(count)") }
  }

  private static func expectTag(_ tag: Int, _ what: String) throws {
    guard UInt32(exactly: tag) != nil else {
      throw invalid("\(what): expected 0 <= tag <= \(UInt32.max), got \(tag)")
    }
  }
}

extension GroupCore {
  func expectRank(_ rank: Int, _ what: String) throws {
    guard rank >= 0 && rank < size else {
      throw invalid("\(what): expected a rank from 0 to \(size - 1) of group \(name), got \(rank)")
    }
  }

  func expectOtherRank(_ rank: Int, _ what: String) throws {
    try expectRank(rank, what)
    guard rank != self.rank else { throw invalid("\(what): expected another rank, got this rank, \(rank)") }
  }

  func times(_ count: Int) throws -> Int {
    let (total, overflows) = count.multipliedReportingOverflow(by: size)
    guard !overflows else { throw invalid("\(size) times \(count) elements exceed the address space") }
    return total
  }

  func checkedTotal(_ counts: [Int], _ what: String) throws -> Int {
    guard counts.count == size else {
      throw invalid("\(what): expected one for each of \(size) ranks, got \(counts.count)")
    }
    var total = 0
    for count in counts {
      guard count >= 0 else { throw invalid("\(what): expected 0 or more, got \(count)") }
      let (sum, overflows) = total.addingReportingOverflow(count)
      guard !overflows else { throw invalid("\(what): the sum exceeds the address space") }
      total = sum
    }
    return total
  }
}
