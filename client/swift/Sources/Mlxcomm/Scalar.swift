// The element types of buffers, including two that Swift lacks.

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

/// An element of a buffer. You can conform another type, such as Complex<Float>, if it has the size and the
/// layout of its `dataType`.
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

/// The upper half of a Float. Convert it to Float to compute.
public struct BFloat16: Scalar, Hashable, CustomStringConvertible {
  public static var dataType: DataType { .bfloat16 }

  public var bitPattern: UInt16

  public init(bitPattern: UInt16) { self.bitPattern = bitPattern }

  /// Rounded to nearest, ties to even.
  public init(_ value: Float) {
    let bits = value.bitPattern
    if value.isNaN {
      bitPattern = UInt16(bits >> 16) | 0x40  // Keeps it a quiet NaN.
    } else {
      bitPattern = UInt16(truncatingIfNeeded: (bits + 0x7fff + (bits >> 16 & 1)) >> 16)
    }
  }

  public var description: String { Float(self).description }
}

extension Float {
  public init(_ value: BFloat16) { self.init(bitPattern: UInt32(value.bitPattern) << 16) }
}

/// MLX's complex64.
public struct Complex64: Scalar, Hashable {
  public static var dataType: DataType { .complex64 }

  public var real: Float
  public var imaginary: Float

  public init(_ real: Float, _ imaginary: Float = 0) {
    self.real = real
    self.imaginary = imaginary
  }
}

/// How to combine the elements of all ranks.
public enum ReduceOperator: UInt32, Sendable, CaseIterable {
  case sum = 1
  case prod
  /// NaN if any input is NaN; complex numbers compare by real part, then by imaginary part.
  case min
  case max
  /// Bitwise, on integers and Bool.
  case and
  case or
  /// The sum, divided by the group's size before rounding; not for integers.
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
      throw invalid("\(operation): op: \(self) does not support \(type)")
    }
  }
}
