// A failure: a code for programs, a message for people, and the failed rank and its node, if known. Mlxcomm
// throws only this type, and CancellationError from an async call whose Task was cancelled before it began.

import CMlxcomm
import Foundation

public struct MlxcommError: Error, Sendable, Hashable {
  public enum Code: UInt32, Sendable, CaseIterable {
    case invalidArgument = 1
    /// Ranks of a group made different calls.
    case mismatch
    /// The message names the missing ranks.
    case deadlineExceeded
    case rankLost
    /// Buffers remain readable; join again.
    case daemonLost
    case daemonStopping
    case resourceExhausted
    /// This rank or another cancelled the operation; the group has failed.
    case cancelled
    /// The rank is taken.
    case alreadyExists
    /// No daemon, no link to a node, or no launcher although one is required.
    case unavailable
    case permissionDenied
    case internalError

    /// libmlxcomm's name: "RANK_LOST".
    public var name: String {
      String(cString: mlxcomm_code_name(mlxcomm_code(rawValue: rawValue)))
    }
  }

  public let code: Code
  /// The failed rank, in the group of the call.
  public let rank: Int?
  /// The name of that rank's node.
  public let node: String?
  public let message: String

  public init(_ code: Code, _ message: String, rank: Int? = nil, node: String? = nil) {
    self.code = code
    self.rank = rank
    self.node = node
    self.message = message
  }
}

extension MlxcommError: CustomStringConvertible, LocalizedError {
  public var description: String { "\(code.name): \(message)" }
  public var errorDescription: String? { description }
}

func invalid(_ message: String) -> MlxcommError { MlxcommError(.invalidArgument, message) }

extension MlxcommError {
  /// Returns nil for MLXCOMM_OK. `group`: the group of the error's rank.
  init?(_ code: mlxcomm_code, _ error: UnsafePointer<mlxcomm_error>, in group: OpaquePointer?) {
    guard code != MLXCOMM_OK else { return nil }
    let rank = error.pointee.rank
    let bytes = UnsafeRawPointer(error) + MemoryLayout<mlxcomm_error>.offset(of: \.message)!
    var node: String?
    if rank >= 0, let group, let name = mlxcomm_member_node(group, UInt32(rank)) {
      node = String(cString: name)
    }
    self.init(
      Code(rawValue: code.rawValue) ?? .internalError,
      String(cString: bytes.assumingMemoryBound(to: CChar.self)),
      rank: rank < 0 ? nil : Int(rank), node: node)
  }
}

func call(
  in group: OpaquePointer? = nil, _ body: (UnsafeMutablePointer<mlxcomm_error>) -> mlxcomm_code
) throws {
  // Uninitialized: 1 KiB that is written only on errors.
  try withUnsafeTemporaryAllocation(of: mlxcomm_error.self, capacity: 1) { error in
    let code = body(error.baseAddress!)
    if let thrown = MlxcommError(code, error.baseAddress!, in: group) { throw thrown }
  }
}

/// Returns 0, which means the default, for nil.
func nanoseconds(_ timeout: Duration?) throws -> UInt64 {
  guard let timeout else { return 0 }
  guard timeout > .zero else { throw invalid("timeout: expected more than 0, got \(timeout)") }
  let (seconds, attoseconds) = timeout.components
  guard seconds < Int64.max / 1_000_000_000 else { return UInt64(Int64.max) }
  return max(1, UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds) / 1_000_000_000)
}
