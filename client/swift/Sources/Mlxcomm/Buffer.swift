// Elements in the arena, the memory that this process shares with its daemon.
//
// While an operation is in progress, no other code may touch what it writes, or change what it reads. Memory
// enforces this with claims on ranges of bytes: another operation on claimed bytes throws, and direct access
// traps, like overlapping access to a variable.
//
// Thread: any. Memory: the arena's, or the heap's in a group of one rank; freed with its last buffer, view
// and operation.

import CMlxcomm
import Foundation

/// The memory of a buffer and its views.
final class Memory: @unchecked Sendable {  // `claims` is behind `lock`; they guard `base`'s bytes.
  let connection: Connection?  // nil: on the heap.
  let base: UnsafeMutableRawPointer

  struct Claim: Equatable {
    let bytes: Range<Int>
    let isExclusive: Bool
  }
  private let lock = NSLock()
  private var claims: [Claim] = []

  init(_ connection: Connection?, byteCount: Int) throws {
    self.connection = connection
    if let connection {
      var made: UnsafeMutableRawPointer?
      try call {
        mlxcomm_buffer_allocate(connection.handle.pointer, UInt64(max(1, byteCount)), &made, $0)
      }
      base = made!
    } else {
      base = .allocate(byteCount: max(1, byteCount), alignment: 64)
    }
  }

  deinit {
    if let connection {
      mlxcomm_buffer_free(connection.handle.pointer, base)
    } else {
      base.deallocate()
    }
  }

  /// Returns nil if the bytes are in use.
  func claim(_ bytes: Range<Int>, isExclusive: Bool) -> Claim? {
    let claim = Claim(bytes: bytes, isExclusive: isExclusive)
    return lock.withLock {
      for other in claims where other.isExclusive || isExclusive {
        if other.bytes.overlaps(bytes) { return nil }
      }
      claims.append(claim)
      return claim
    }
  }

  func release(_ claim: Claim) {
    lock.withLock {
      if let index = claims.lastIndex(of: claim) { claims.remove(at: index) }
    }
  }

  func during<Value>(_ bytes: Range<Int>, isExclusive: Bool, _ body: () throws -> Value) rethrows -> Value {
    guard let claim = claim(bytes, isExclusive: isExclusive) else {
      fatalError(
        "mlxcomm: a buffer is \(isExclusive ? "written" : "read") while an operation or another thread "
          + "\(isExclusive ? "uses" : "writes") it: wait for that first")
    }
    defer { release(claim) }
    return try body()
  }
}

/// `count` elements in memory shared with the daemon.
public final class Buffer<Element: Scalar>: Sendable {
  let memory: Memory
  let offset: Int  // Counted in elements.
  public let count: Int

  init(_ memory: Memory, offset: Int, count: Int) {
    self.memory = memory
    self.offset = offset
    self.count = count
  }

  /// Makes a buffer of undefined elements. Throws RESOURCE_EXHAUSTED if the arena is full.
  public convenience init(count: Int, in group: Group) throws {
    try self.init(count: count, of: group.core.job?.connection)
  }

  public convenience init(repeating value: Element, count: Int, in group: Group) throws {
    try self.init(count: count, in: group)
    withUnsafeMutableBufferPointer { $0.update(repeating: value) }
  }

  public convenience init(_ elements: some Collection<Element>, in group: Group) throws {
    try self.init(count: elements.count, in: group)
    withUnsafeMutableBufferPointer { place in
      let end = place.update(fromContentsOf: elements)
      precondition(end == place.count, "a collection's count is wrong")
    }
  }

  convenience init(count: Int, of connection: Connection?) throws {
    guard count >= 0 else { throw invalid("count: expected 0 or more, got \(count)") }
    guard MemoryLayout<Element>.stride == Element.dataType.byteCount else {
      throw invalid(
        "\(Element.self): expected \(Element.dataType.byteCount) bytes, as \(Element.dataType) has, got "
          + "\(MemoryLayout<Element>.stride)")
    }
    let (bytes, overflows) = count.multipliedReportingOverflow(by: MemoryLayout<Element>.stride)
    guard !overflows else { throw invalid("count: \(count) elements exceed the address space") }
    self.init(try Memory(connection, byteCount: bytes), offset: 0, count: count)
    if Element.dataType == .bool { memory.base.initializeMemory(as: UInt8.self, repeating: 0, count: count) }
  }

  /// Returns some of the elements as a buffer, without a copy.
  public func view(_ range: Range<Int>) -> Buffer {
    precondition(range.lowerBound >= 0 && range.upperBound <= count, "a range outside of the buffer")
    return Buffer(memory, offset: offset + range.lowerBound, count: range.count)
  }

  var bytes: Range<Int> {
    let stride = MemoryLayout<Element>.stride
    return offset * stride..<(offset + count) * stride
  }

  private func place(_ range: Range<Int>) -> UnsafeMutableBufferPointer<Element> {
    let first = (memory.base + (offset + range.lowerBound) * MemoryLayout<Element>.stride)
      .bindMemory(to: Element.self, capacity: range.count)
    return UnsafeMutableBufferPointer(start: first, count: range.count)
  }

  private func bytes(of index: Int) -> Range<Int> {
    precondition(index >= 0 && index < count, "an index outside of the buffer")
    let first = (offset + index) * MemoryLayout<Element>.stride
    return first..<first + MemoryLayout<Element>.stride
  }

  public func withUnsafeBufferPointer<Value>(
    _ body: (UnsafeBufferPointer<Element>) throws -> Value
  ) rethrows -> Value {
    try memory.during(bytes, isExclusive: false) { try body(UnsafeBufferPointer(place(0..<count))) }
  }

  public func withUnsafeMutableBufferPointer<Value>(
    _ body: (UnsafeMutableBufferPointer<Element>) throws -> Value
  ) rethrows -> Value {
    try memory.during(bytes, isExclusive: true) { try body(place(0..<count)) }
  }
}

extension Buffer: RandomAccessCollection {
  public var startIndex: Int { 0 }
  public var endIndex: Int { count }

  /// Accesses one element, and checks that no operation uses it. For many elements `withUnsafeBufferPointer`
  /// and `withUnsafeMutableBufferPointer` are faster.
  public subscript(index: Int) -> Element {
    get { memory.during(bytes(of: index), isExclusive: false) { place(index..<index + 1)[0] } }
    set { memory.during(bytes(of: index), isExclusive: true) { place(index..<index + 1)[0] = newValue } }
  }

  public func withContiguousStorageIfAvailable<Value>(
    _ body: (UnsafeBufferPointer<Element>) throws -> Value
  ) rethrows -> Value? {
    try withUnsafeBufferPointer(body)
  }

  /// Iterates over the current elements.
  public func makeIterator() -> IndexingIterator<[Element]> {
    withUnsafeBufferPointer { Array($0) }.makeIterator()
  }
}

/// An argument or result of a collective function: an array, which is copied into or out of the arena, or a
/// buffer.
public protocol Payload: Sendable {
  associatedtype Element: Scalar
  var count: Int { get }
  /// Internal: the elements in the group's arena, and whether they are a copy.
  func inArena(of group: Group) throws -> (buffer: Buffer<Element>, isCopy: Bool)
  /// Internal: makes a result.
  static func made(of buffer: Buffer<Element>) -> Self
}

extension Array: Payload where Element: Scalar {
  public func inArena(of group: Group) throws -> (buffer: Buffer<Element>, isCopy: Bool) {
    (try Buffer(self, in: group), true)
  }
  public static func made(of buffer: Buffer<Element>) -> [Element] {
    buffer.withUnsafeBufferPointer { Array($0) }
  }
}

extension Buffer: Payload {
  public func inArena(of group: Group) throws -> (buffer: Buffer<Element>, isCopy: Bool) {
    (self, false)
  }
  public static func made(of buffer: Buffer<Element>) -> Buffer<Element> { buffer }
}
