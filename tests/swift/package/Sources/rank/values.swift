// Stories without failures: every operation, of every element type.

import Foundation
import Mlxcomm

/// Values that every element type holds exactly, and the results of reductions over both ranks.
struct Sample<Element: Scalar & Equatable> {
  /// The value number `index` of rank `rank`.
  let value: (Int, Int) -> Element
  let reductions: [(ReduceOperator, (Element, Element) -> Element)]

  func of(_ rank: Int, _ count: Int, from: Int = 0) -> [Element] {
    (from..<from + count).map { value(rank, $0) }
  }
}

func integers<Element: Scalar & FixedWidthInteger>(_: Element.Type) -> Sample<Element> {
  Sample(
    value: { Element($0 * 5 + $1 % 3 + 1) },
    reductions: [
      (.sum, &+), (.prod, &*), (.min, Swift.min), (.max, Swift.max), (.and, &), (.or, |),
    ])
}

func floats<Element: Scalar & BinaryFloatingPoint>(_: Element.Type) -> Sample<Element> {
  Sample(
    value: { Element($0 * 5 - $1 % 3) },
    reductions: [
      (.sum, +), (.prod, *), (.min, Swift.min), (.max, Swift.max), (.mean, { ($0 + $1) / 2 }),
    ])
}

var bfloats: Sample<BFloat16> {
  Sample(
    value: { BFloat16(Float($0 * 5 - $1 % 3)) },
    reductions: [
      (.sum, { BFloat16(Float($0) + Float($1)) }), (.prod, { BFloat16(Float($0) * Float($1)) }),
      (.min, { Float($0) < Float($1) ? $0 : $1 }), (.max, { Float($0) > Float($1) ? $0 : $1 }),
      (.mean, { BFloat16((Float($0) + Float($1)) / 2) }),
    ])
}

var bools: Sample<Bool> {
  Sample(
    value: { ($0 + $1).isMultiple(of: 2) || $1.isMultiple(of: 3) },
    reductions: [
      (.sum, { $0 || $1 }), (.prod, { $0 && $1 }), (.min, { $0 && $1 }), (.max, { $0 || $1 }),
      (.and, { $0 && $1 }), (.or, { $0 || $1 }),
    ])
}

var complexNumbers: Sample<Complex64> {
  Sample(
    value: { Complex64(Float($1 % 2), Float($0 * 3 - $1 % 3)) },
    reductions: [
      (.sum, { Complex64($0.real + $1.real, $0.imaginary + $1.imaginary) }),
      (
        .prod,
        {
          Complex64(
            $0.real * $1.real - $0.imaginary * $1.imaginary, $0.real * $1.imaginary + $0.imaginary * $1.real)
        }
      ),
      (.min, { ($0.real, $0.imaginary) < ($1.real, $1.imaginary) ? $0 : $1 }),
      (.max, { ($0.real, $0.imaginary) > ($1.real, $1.imaginary) ? $0 : $1 }),
      (.mean, { Complex64(($0.real + $1.real) / 2, ($0.imaginary + $1.imaginary) / 2) }),
    ])
}

@Sendable func everyOperation(_ world: Group) async throws {
  try blocking {
    try operations(world, floats(Float.self))
    try operations(world, floats(Double.self))
    #if !(os(macOS) && arch(x86_64))
      try operations(world, floats(Float16.self))
    #endif
    try operations(world, bfloats)
    try operations(world, integers(Int8.self))
    try operations(world, integers(Int16.self))
    try operations(world, integers(Int32.self))
    try operations(world, integers(Int64.self))
    try operations(world, integers(Int.self))
    try operations(world, integers(UInt8.self))
    try operations(world, integers(UInt16.self))
    try operations(world, integers(UInt32.self))
    try operations(world, integers(UInt64.self))
    try operations(world, integers(UInt.self))
    try operations(world, bools)
    try operations(world, complexNumbers)
  }
}

func operations<E>(_ world: Group, _ sample: Sample<E>) throws {
  let (me, other) = (world.rank, 1 - world.rank)
  let count = 7
  let (mine, all) = (sample.of(me, count), sample.of(0, count) + sample.of(1, count))
  let blocks = sample.of(me, 2 * count)
  for (op, combine) in sample.reductions {
    let both = zip(sample.of(0, count), sample.of(1, count)).map(combine)
    let bothBlocks = zip(sample.of(0, 2 * count), sample.of(1, 2 * count)).map(combine)
    expectEqual(try world.allReduce(mine, op: op), both, "\(E.self) allReduce \(op)")
    expectEqual(try world.reduce(mine, op: op, root: 1), me == 1 ? both : nil, "\(E.self) reduce \(op)")
    expectEqual(
      try world.reduceScatter(blocks, op: op), Array(bothBlocks[me * count..<(me + 1) * count]),
      "\(E.self) reduceScatter \(op)")
    switch op {
    case .sum:
      expectEqual(try world.allSum(mine), both, "allSum")
      expectEqual(
        try world.sumScatter(blocks), Array(bothBlocks[me * count..<(me + 1) * count]), "sumScatter")
    case .min: expectEqual(try world.allMin(mine), both, "allMin")
    case .max: expectEqual(try world.allMax(mine), both, "allMax")
    default: break
    }
  }
  expectEqual(try world.broadcast(mine, root: 1), sample.of(1, count), "\(E.self) broadcast")
  expectEqual(try world.allGather(mine), all, "\(E.self) allGather")
  expectEqual(
    try world.allGatherV(sample.of(me, me + 2), counts: [2, 3]), sample.of(0, 2) + sample.of(1, 3),
    "\(E.self) allGatherV")
  expectEqual(try world.gather(mine, root: 0), me == 0 ? all : nil, "\(E.self) gather")
  expectEqual(
    try world.scatter(me == 1 ? blocks : nil, count: count, root: 1),
    sample.of(1, count, from: me * count), "\(E.self) scatter")
  expectEqual(
    try world.allToAll(blocks),
    sample.of(0, count, from: me * count) + sample.of(1, count, from: me * count), "\(E.self) allToAll")
  // Rank 0 keeps 1 and sends 2; rank 1 sends 3 and keeps 4.
  let (sends, receives) = me == 0 ? ([1, 2], [1, 3]) : ([3, 4], [2, 4])
  expectEqual(
    try world.allToAllV(sample.of(me, sends[0] + sends[1]), sendCounts: sends, receiveCounts: receives),
    me == 0 ? sample.of(0, 1) + sample.of(1, 3) : sample.of(0, 2, from: 1) + sample.of(1, 4, from: 3),
    "\(E.self) allToAllV")
  if me == 0 {
    try world.send(mine, to: 1)
    try world.send(mine, to: 1, tag: 7)
  } else {
    expectEqual(try world.recv([E].self, count: count, from: 0), sample.of(0, count), "\(E.self) recv")
    expectEqual(try world.recvLike(mine, from: other, tag: 7), sample.of(0, count), "\(E.self) recvLike")
  }
  expectEqual(try world.allSum([E]()), [], "no elements")
  try world.barrier()
}

/// In the arena, without a copy: in place, into another one, on a part of one.
@Sendable func operationsOnBuffers(_ world: Group) async throws {
  let (me, count) = (world.rank, 1 << 16)
  let x = try Buffer((0..<count).map { Float($0 % 100 + me) }, in: world)
  let y = try await world.allSum(x)
  expect(y !== x && y.elementsEqual((0..<count).map { Float($0 % 100 * 2 + 1) }), "a new buffer")
  try await world.run(.allReduce(x, into: x, op: .max))
  expectEqual(x[3], 4, "in place")
  // Two halves of one buffer, both in use.
  let low = try world.begin(.allReduce(x.view(0..<count / 2), into: y.view(0..<count / 2)))
  let high = try world.begin(.allReduce(x.view(count / 2..<count), into: y.view(count / 2..<count)))
  try await high.wait()
  try await low.wait()
  expect(low.hasEnded && high.hasEnded, "both have ended")
  try blocking { try low.wait() }  // Again: the same result.
  expect(y.elementsEqual(x.map { $0 * 2 }), "both halves")
  try blocking { try world.run(.broadcast(me == 0 ? x : nil, into: y, root: 0)) }
  expectEqual(Array(y), Array(x), "broadcast")
  try await world.run(.barrier)
}

/// A Bool from another program may be any byte.
@Sendable func hostileBool(_ world: Group) async throws {
  let x = try Buffer<Bool>(repeating: false, count: 3, in: world)
  if world.rank == 0 {
    x.withUnsafeMutableBufferPointer { UnsafeMutableRawBufferPointer($0)[1] = 0x5a }
    try await world.run(.broadcast(x, into: x, root: 0))
  } else {
    try await world.run(.broadcast(nil, into: x, root: 0))
    expectEqual(x.withUnsafeBufferPointer { Array(UnsafeRawBufferPointer($0)) }, [0, 1, 0], "bytes")
  }
}

/// More waits than cores; the last one to begin ends first.
@Sendable func manyAtOnce(_ world: Group) async throws {
  let count = 100
  let other = 1 - world.rank
  try await withThrowingTaskGroup(of: (Int, [Int]).self) { tasks in
    for tag in 0..<count {
      tasks.addTask { (tag, try await world.recv([Int].self, count: 2, from: other, tag: tag)) }
    }
    for tag in (0..<count).reversed() { try await world.send([tag, world.rank], to: other, tag: tag) }
    for try await (tag, values) in tasks { expectEqual(values, [tag, other], "tag \(tag)") }
  }
  // Without a thread for each: begun in order, awaited in any.
  let buffers = try (0..<200).map { try Buffer([$0], in: world) }
  let begun = try buffers.map { try world.begin(.allReduce($0, into: $0)) }
  for pending in begun.reversed() { try await pending.wait() }
  expectEqual(buffers.map { $0[0] }, (0..<200).map { 2 * $0 }, "sums")
}

@Sendable func groups(_ world: Group) async throws {
  let me = world.rank
  expectEqual(world.name, ProcessInfo.processInfo.environment["MLXCOMM_JOB"]!, "name")
  expectEqual(world.member(me)?.pid, Int(getpid()), "pid")
  expect(world.member(2) == nil && world.member(-1) == nil, "a member that does not exist")
  let turned = try await world.split(color: 0, key: 1 - me, name: "turned")
  expectEqual(turned.rank, 1 - me, "rank")
  expectEqual(turned.name, world.name + "/turned", "name")
  expectEqual(try await turned.allGather([me]), [1, 0], "order of key")
  let alone = try blocking { try world.split(color: me) }
  expectEqual(alone.size, 1, "size")
  expectEqual(try await alone.allSum([me]), [me], "sum of one")
  let nested = try await turned.split(color: 3)
  expectEqual(nested.rank, turned.rank, "without a key the rank counts")
  expectEqual(try await nested.allSum([1]), [2], "nested")
  if me == 0 {
    try await world.splitWithoutMe()
  } else {
    expectEqual(try await world.split(color: 1).size, 1, "the other takes no part")
  }
  try world.setTimeout(.seconds(60))
  try world.setTimeout(nil)
  expect(world.failure == nil, "no failure")
  try world.check()
  // A part and a buffer are the last objects of a job: it stays joined until they go.
  var second: Group? = try await Group.join(job: world.name + "-2", rank: me, size: 2)
  let part = try await second!.split(color: 0)
  let x = try Buffer([1, 2], in: second!)
  second = nil
  try await part.run(.allReduce(x, into: x))
  expectEqual(Array(x), [2, 4], "after the world group has gone")
}
