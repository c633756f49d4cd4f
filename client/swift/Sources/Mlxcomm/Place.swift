// This process's rank, size and job from its launcher's variables, and the world group that it joins with
// them.

import CMlxcomm
import Foundation

struct Place: Equatable, Sendable {
  let job: String
  let rank: Int
  let size: Int
  /// A launcher set the rank.
  let isLaunched: Bool

  /// Arguments override the environment. Throws INVALID_ARGUMENT, which names the wrong argument or variable.
  init(job: String? = nil, rank: Int? = nil, size: Int? = nil) throws {
    for (name, value) in [("rank", rank), ("size", size)] {
      if let value, value < 0 {
        throw invalid("\(name): expected 0 or more, got \(value)")
      }
    }
    var options = mlxcomm_place_options()
    mlxcomm_place_options_init(&options)
    options.rank = Int64(rank ?? -1)
    options.size = Int64(size ?? -1)
    var found = mlxcomm_place()
    try withOptionalCString(job) { name in
      options.job = name
      try call { mlxcomm_find_place(&options, &found, $0) }
    }
    self.job = withUnsafeBytes(of: &found.job) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    self.rank = Int(found.rank)
    self.size = Int(found.size)
    isLaunched = found.launched != 0
  }
}

/// This process's world group, kept until the process exits, as in MLX.
final class World: @unchecked Sendable {  // `joined` is behind `lock`, which is also held while joining.
  static let shared = World()

  private let lock = NSLock()
  private var joined: (place: Place, core: GroupCore)?

  func core(strict: Bool, backend: Backend, timeout: Duration? = nil) throws -> GroupCore {
    try lock.withLock {
      if let joined {
        let code = joined.core.failure?.code
        // The process can join again after these failures.
        if code != .daemonLost && code != .daemonStopping { return joined.core }
        self.joined = nil
      }
      let place = try Place()
      if !place.isLaunched && place.size == 1 && strict {
        throw MlxcommError(
          .unavailable,
          "no launcher has set this process's rank and size. Start the program with mlxcommctl launch, "
            + "mlx.launch, mpirun, torchrun or srun, or set MLX_RANK and MLX_WORLD_SIZE (backend "
            + "\(backend), strict)")
      }
      if place.size == 1 { return .alone }
      let core = try GroupCore.join(
        try Connection(), job: place.job, rank: place.rank, size: place.size, timeout: timeout)
      joined = (place, core)
      return core
    }
  }

  /// Replaces the world by the group that it shrank to.
  func replace(_ old: GroupCore, by new: GroupCore) {
    lock.withLock {
      if let joined, joined.core === old { self.joined = (joined.place, new) }
    }
  }
}

/// MLX's names of backends, which all mean this process's job.
public enum Backend: String, CaseIterable, Sendable {
  case any
  case ring
  case jaccl
  case mpi
  case nccl

  /// Always true.
  public var isAvailable: Bool { true }
}
