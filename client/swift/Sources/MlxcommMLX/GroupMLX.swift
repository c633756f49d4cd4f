// Operations on mlx-swift's arrays, with the names and shapes of its DistributedGroup. Each evaluates its
// array, copies it into the arena, blocks until the operation has ended, and copies the result into a new
// array; nothing is lazy.

import Foundation
import MLX
import Mlxcomm

extension Group {
  /// Combines the arrays of all ranks, which must have the same shape.
  public func allReduce(
    _ x: MLXArray, op: ReduceOperator = .sum, timeout: Duration? = nil
  ) throws -> MLXArray {
    func carryOut<E: Scalar>(_: E.Type) throws -> MLXArray {
      let buffer: Buffer<E> = try buffer(of: x)
      try run(.allReduce(buffer, into: buffer, op: op), timeout: timeout)
      return array(of: buffer, x.shape, x.dtype)
    }
    return try carryOut(element(of: x.dtype))
  }

  public func allSum(_ x: MLXArray, timeout: Duration? = nil) throws -> MLXArray {
    try allReduce(x, op: .sum, timeout: timeout)
  }

  public func allMax(_ x: MLXArray, timeout: Duration? = nil) throws -> MLXArray {
    try allReduce(x, op: .max, timeout: timeout)
  }

  public func allMin(_ x: MLXArray, timeout: Duration? = nil) throws -> MLXArray {
    try allReduce(x, op: .min, timeout: timeout)
  }

  /// Concatenates the rows of all ranks, in order of rank; a scalar counts as one row.
  public func allGather(_ x: MLXArray, timeout: Duration? = nil) throws -> MLXArray {
    func carryOut<E: Scalar>(_: E.Type) throws -> MLXArray {
      let buffer: Buffer<E> = try allGather(buffer(of: x), timeout: timeout)
      let rows = x.ndim == 0 ? 1 : x.dim(0)
      return array(of: buffer, [rows * size] + x.shape.dropFirst(), x.dtype)
    }
    return try carryOut(element(of: x.dtype))
  }

  /// Returns this rank's rows of what allSum would return.
  public func sumScatter(_ x: MLXArray, timeout: Duration? = nil) throws -> MLXArray {
    guard x.ndim > 0, x.dim(0).isMultiple(of: size) else {
      throw MlxcommError(
        .invalidArgument, "sumScatter: x: expected rows for each of \(size) ranks, got shape \(x.shape)")
    }
    func carryOut<E: Scalar>(_: E.Type) throws -> MLXArray {
      let buffer: Buffer<E> = try sumScatter(buffer(of: x), timeout: timeout)
      return array(of: buffer, [x.dim(0) / size] + x.shape.dropFirst(), x.dtype)
    }
    return try carryOut(element(of: x.dtype))
  }

  /// Returns the root's array; on other ranks only the shape of x matters.
  public func broadcast(_ x: MLXArray, root: Int, timeout: Duration? = nil) throws -> MLXArray {
    func carryOut<E: Scalar>(_: E.Type) throws -> MLXArray {
      let buffer: Buffer<E> = try buffer(of: x)
      try run(.broadcast(buffer, into: buffer, root: root), timeout: timeout)
      return array(of: buffer, x.shape, x.dtype)
    }
    return try carryOut(element(of: x.dtype))
  }

  public func send(_ x: MLXArray, to destination: Int, tag: Int = 0, timeout: Duration? = nil) throws {
    func carryOut<E: Scalar>(_: E.Type) throws {
      let buffer: Buffer<E> = try buffer(of: x)
      try run(.send(buffer, to: destination, tag: tag), timeout: timeout)
    }
    try carryOut(element(of: x.dtype))
  }

  public func recv(
    shape: [Int], dtype: DType, from source: Int, tag: Int = 0, timeout: Duration? = nil
  ) throws -> MLXArray {
    func carryOut<E: Scalar>(_: E.Type) throws -> MLXArray {
      let buffer = try Buffer<E>(count: shape.reduce(1, *), in: self)
      try run(.recv(into: buffer, from: source, tag: tag), timeout: timeout)
      return array(of: buffer, shape, dtype)
    }
    return try carryOut(element(of: dtype))
  }

  public func recvLike(
    _ x: MLXArray, from source: Int, tag: Int = 0, timeout: Duration? = nil
  ) throws -> MLXArray {
    try recv(shape: x.shape, dtype: x.dtype, from: source, tag: tag, timeout: timeout)
  }

  private func buffer<E: Scalar>(of x: MLXArray) throws -> Buffer<E> {
    let data = x.asData(access: .copy).data  // Evaluates x; contiguous.
    let buffer = try Buffer<E>(count: x.size, in: self)
    buffer.withUnsafeMutableBufferPointer { _ = data.copyBytes(to: UnsafeMutableRawBufferPointer($0)) }
    return buffer
  }

  private func array<E: Scalar>(of buffer: Buffer<E>, _ shape: [Int], _ dtype: DType) -> MLXArray {
    if buffer.isEmpty { return MLXArray.zeros(shape, dtype: dtype) }
    return buffer.withUnsafeBufferPointer { MLXArray(Data(buffer: $0), shape, dtype: dtype) }
  }

  private func element(of dtype: DType) throws -> any Scalar.Type {
    switch dtype {
    case .bool: return Bool.self
    case .uint8: return UInt8.self
    case .uint16: return UInt16.self
    case .uint32: return UInt32.self
    case .uint64: return UInt64.self
    case .int8: return Int8.self
    case .int16: return Int16.self
    case .int32: return Int32.self
    case .int64: return Int64.self
    case .bfloat16: return BFloat16.self
    case .float32: return Float.self
    case .float64: return Double.self
    case .complex64: return Complex64.self
    case .float16:
      #if os(macOS) && arch(x86_64)
        throw MlxcommError(.invalidArgument, "float16: Swift supports it only on Apple silicon")
      #else
        return Float16.self
      #endif
    }
  }
}
