// The elements of buffers: the types that the daemon knows, and the two that Swift does not have.

import CMlxcomm

public enum DataType: UInt32, Sendable, CaseIterable {
  case float32 = 1
  case float16
  case bfloat16
  case int32
  case bool
  case int8
  case int16
  case int64
  case uint8
  case uint16
  case uint32
  case uint64
  case float64
  case complex64

  public var byteCount: Int {
    switch self {
    case .bool, .int8, .uint8: 1
    case .float16, .bfloat16, .int16, .uint16: 2
    case .float32, .int32, .uint32: 4
    case .int64, .uint64, .float64, .complex64: 8
    }
  }

  var inC: mlxcomm_data_type { mlxcomm_data_type(rawValue: rawValue) }
  var isInteger: Bool {
    switch self {
    case .int8, .int16, .int32, .int64, .uint8, .uint16, .uint32, .uint64: true
    case .float16, .bfloat16, .float32, .float64, .complex64, .bool: false
    }
  }
}

/// An element of a buffer. A type of your own (such as another package's Complex<Float>) may be one
/// as well: it must have the size and the layout of its `dataType`.
public protocol Scalar: BitwiseCopyable, Sendable {
  static var dataType: DataType { get }
}

extension Float: Scalar { public static var dataType: DataType { .float32 } }
extension Double: Scalar { public static var dataType: DataType { .float64 } }
#if !((os(macOS) || targetEnvironment(macCatalyst)) && arch(x86_64))
  extension Float16: Scalar { public static var dataType: DataType { .float16 } }
#endif
extension Bool: Scalar { public static var dataType: DataType { .bool } }
extension Int8: Scalar { public static var dataType: DataType { .int8 } }
extension Int16: Scalar { public static var dataType: DataType { .int16 } }
extension Int32: Scalar { public static var dataType: DataType { .int32 } }
extension Int64: Scalar { public static var dataType: DataType { .int64 } }
extension Int: Scalar { public static var dataType: DataType { .int64 } }
extension UInt8: Scalar { public static var dataType: DataType { .uint8 } }
extension UInt16: Scalar { public static var dataType: DataType { .uint16 } }
extension UInt32: Scalar { public static var dataType: DataType { .uint32 } }
extension UInt64: Scalar { public static var dataType: DataType { .uint64 } }
extension UInt: Scalar { public static var dataType: DataType { .uint64 } }

/// The upper half of a Float. It is stored and sent; to compute, make a Float of it.
public struct BFloat16: Scalar, Hashable, CustomStringConvertible {
  public static var dataType: DataType { .bfloat16 }

  public var bitPattern: UInt16

  public init(bitPattern: UInt16) { self.bitPattern = bitPattern }

  /// Rounded to nearest, ties to even.
  public init(_ value: Float) {
    let bits = value.bitPattern
    if value.isNaN {
      bitPattern = UInt16(bits >> 16) | 0x40  // Stays a quiet NaN, whatever is cut off.
    } else {
      bitPattern = UInt16(truncatingIfNeeded: (bits + 0x7fff + (bits >> 16 & 1)) >> 16)
    }
  }

  public var description: String { Float(self).description }
}

extension Float {
  public init(_ value: BFloat16) { self.init(bitPattern: UInt32(value.bitPattern) << 16) }
}

/// A complex number as MLX's complex64 has it.
public struct Complex64: Scalar, Hashable {
  public static var dataType: DataType { .complex64 }

  public var real: Float
  public var imaginary: Float

  public init(_ real: Float, _ imaginary: Float = 0) {
    self.real = real
    self.imaginary = imaginary
  }
}

/// How elements of the ranks are combined.
public enum ReduceOperator: UInt32, Sendable, CaseIterable {
  case sum = 1
  case prod
  /// NaN where any input is NaN; complex numbers by the real part, then the imaginary one.
  case min
  case max
  /// Bitwise, of integers and Bool.
  case and
  case or
  /// The sum, divided by the group's size before it is rounded; not of integers.
  case mean

  var inC: mlxcomm_operator { mlxcomm_operator(rawValue: rawValue) }

  func check(for type: DataType, in operation: String) throws {
    let fits =
      switch self {
      case .sum, .prod, .min, .max: true
      case .and, .or: type.isInteger || type == .bool
      case .mean: !type.isInteger && type != .bool
      }
    guard fits else {
      throw invalid("\(operation): op: \(self) of \(type) does not exist; expected one that does")
    }
  }
}
