// Buffers, element types and errors alone, in memory without a daemon.

import Foundation
import Mlxcomm
import Testing

@Suite struct ValuesTests {
  let group: Group

  init() throws { group = try Group(job: "alone", rank: 0, size: 1) }

  @Test func aBufferIsACollection() throws {
    let x = try Buffer(0..<10, in: group)
    #expect(x.count == 10 && x.first == 0 && x.last == 9)
    #expect(Array(x) == Array(0..<10))
    #expect(x.map { $0 * 2 }.reduce(0, +) == 90)
    #expect(x[2..<4].elementsEqual([2, 3]))
    x[3] = 30
    #expect(x.max() == 30)
    x.withUnsafeMutableBufferPointer { $0[0] = -1 }
    #expect(x.withUnsafeBufferPointer { $0.min() } == -1)
    #expect(try Buffer<Float>(repeating: 2, count: 3, in: group).elementsEqual([2, 2, 2]))
    #expect(try Buffer<Bool>(count: 100, in: group).allSatisfy { !$0 })
    #expect(try Buffer<Float>(count: 0, in: group).isEmpty)
  }

  @Test func anIteratorGoesOverTheElementsAsTheyWere() throws {
    let x = try Buffer([1, 2, 3], in: group)
    for value in x { x[0] = value }
    #expect(Array(x) == [3, 2, 3])
  }

  @Test func aViewIsNoCopy() throws {
    let x = try Buffer(Array(0..<10), in: group)
    let y = x.view(2..<5).view(1..<3)
    y[0] = 7
    #expect(x[3] == 7 && y.count == 2)
    try group.run(.allReduce(x.view(0..<2), into: x.view(8..<10)))
    #expect(x.suffix(2).elementsEqual([0, 1]))
    #expect(throws: MlxcommError.self) { try group.run(.allReduce(x.view(0..<2), into: x.view(1..<3))) }
  }

  @Test func memoryStaysForAsLongAsAViewOfIt() throws {
    var x: Buffer<Int>? = try Buffer([1, 2], in: group)
    let y = x!.view(1..<2)
    x = nil
    #expect(y[0] == 2)
  }

  struct Pair: Scalar {
    static var dataType: DataType { .float32 }
    var a: Float = 0
    var b: Float = 0
  }

  @Test func anElementOfAnotherSizeThanItsDataTypeIsRefused() {
    #expect {
      _ = try Buffer<Pair>(count: 1, in: group)
    } throws: { "\($0)".contains("expected 4 bytes") }
  }

  @Test func bfloat16RoundsToTheNearestEven() {
    #expect(Float(BFloat16(1)) == 1)
    #expect(Float(BFloat16(1 + 0x1p-8)) == 1)  // Halfway: to the even one.
    #expect(Float(BFloat16(1 + 0x1p-8 + 0x1p-20)) == 1 + 0x1p-7)
    #expect(Float(BFloat16(1 + 0x3p-8)) == 1 + 0x1p-6)
    #expect(Float(BFloat16(-3.140625)) == -3.140625)
    #expect(Float(BFloat16(.infinity)) == .infinity)
    #expect(Float(BFloat16(.greatestFiniteMagnitude)) == .infinity)
    #expect(Float(BFloat16(Float(bitPattern: 0x7f80_0001))).isNaN)
    #expect(BFloat16(bitPattern: 0x3fc0).description == "1.5")
  }

  @Test func errorsSayTheirCodeAndMessage() {
    let error = MlxcommError(.rankLost, "rank 1 has died", rank: 1, node: "mac-1")
    #expect("\(error)" == "RANK_LOST: rank 1 has died")
    #expect(error.localizedDescription == "RANK_LOST: rank 1 has died")
    #expect(Set(MlxcommError.Code.allCases.map(\.name)).count == 12)
    #expect(MlxcommError.Code.internalError.name == "INTERNAL")
  }
}
