// Starts a daemon and two ranks of a story, and reports how they ended.

import Foundation

struct Ranks {
  struct Ended: CustomStringConvertible {
    let status: Int32  // Or the signal that ended it.
    let output: String
    var description: String { "status \(status):\n\(output)" }
  }
  struct Missing: Error, CustomStringConvertible {
    let description: String
  }

  let story: String

  init(_ story: String) { self.story = story }

  func play() throws -> [Ended] {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("mlxcomm-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let socket = folder.appendingPathComponent("s").path
    let config = folder.appendingPathComponent("config")
    try Data("drain_timeout_ms: 200\n".utf8).write(to: config)
    let daemon = try start("mlxcommd", ["--socket", socket, "--config", config.path], [:], folder, "daemon")
    defer {
      daemon.terminate()
      daemon.waitUntilExit()
    }
    while !FileManager.default.fileExists(atPath: socket) {
      guard daemon.isRunning else { throw Missing(description: text(folder, "daemon")) }
      usleep(1000)
    }
    let ranks = try (0..<2).map { rank in
      try start(Self.program(), [story], [
        "MLXCOMM_SOCKET": socket, "MLX_RANK": "\(rank)", "MLX_WORLD_SIZE": "2",
        "MLXCOMM_JOB": story.replacingOccurrences(of: " ", with: "-"),
        "MLXCOMM_TEST_DAEMON": "\(daemon.processIdentifier)", "MLXCOMM_TEST_FOLDER": folder.path,
      ], folder, "rank-\(rank)")
    }
    for rank in ranks { rank.waitUntilExit() }
    return ranks.enumerated().map {
      Ended(status: $1.terminationStatus, output: text(folder, "rank-\($0)"))
    }
  }

  private func start(
    _ program: String, _ arguments: [String], _ more: [String: String], _ folder: URL, _ name: String
  ) throws -> Process {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [program] + arguments
    process.environment = ProcessInfo.processInfo.environment.merging(more) { $1 }
    let file = folder.appendingPathComponent(name)
    _ = FileManager.default.createFile(atPath: file.path, contents: nil)
    let output = try FileHandle(forWritingTo: file)
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = output
    process.standardError = output
    try process.run()
    return process
  }

  private func text(_ folder: URL, _ name: String) -> String {
    let data = try? Data(contentsOf: folder.appendingPathComponent(name))
    return String(decoding: data ?? Data(), as: UTF8.self)
  }

  /// Next to the tests, where SwiftPM builds it.
  private static func program() throws -> String {
    #if os(macOS)
      let tests = Bundle.allBundles.map(\.bundlePath).filter { $0.hasSuffix(".xctest") }
    #else
      let tests = [CommandLine.arguments[0]]
    #endif
    let places = tests.map { URL(fileURLWithPath: $0).deletingLastPathComponent().path + "/rank" }
    guard let program = places.first(where: { FileManager.default.isExecutableFile(atPath: $0) }) else {
      throw Missing(description: "no program `rank` among \(places): swift build the package first")
    }
    return program
  }
}
