// swift-tools-version: 6.0
import PackageDescription

let package = Package(
  name: "mlxcomm-tests",
  platforms: [.macOS(.v14)],
  dependencies: [.package(name: "mlxcomm", path: "../../../client/swift")],
  targets: [
    .executableTarget(name: "rank", dependencies: [.product(name: "Mlxcomm", package: "mlxcomm")]),
    .testTarget(
      name: "MlxcommTests", dependencies: ["rank", .product(name: "Mlxcomm", package: "mlxcomm")]),
  ]
)
