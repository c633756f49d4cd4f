// swift-tools-version: 6.0
import PackageDescription

// pkg-config finds libmlxcomm by its mlxcomm.pc (README.md). MLXCOMM_SWIFT_MLX=1 in the environment adds
// MlxcommMLX, which needs mlx-swift.
let package = Package(
  name: "mlxcomm",
  platforms: [.macOS(.v14)],
  products: [.library(name: "Mlxcomm", targets: ["Mlxcomm"])],
  targets: [
    .systemLibrary(name: "CMlxcomm", pkgConfig: "mlxcomm"),
    .target(name: "Mlxcomm", dependencies: ["CMlxcomm"]),
    .executableTarget(name: "mlxcomm-example", dependencies: ["Mlxcomm"]),
  ]
)

if Context.environment["MLXCOMM_SWIFT_MLX"] == "1" {
  package.dependencies.append(.package(url: "https://github.com/ml-explore/mlx-swift", from: "0.25.0"))
  package.products.append(.library(name: "MlxcommMLX", targets: ["MlxcommMLX"]))
  package.targets.append(
    .target(
      name: "MlxcommMLX", dependencies: ["Mlxcomm", .product(name: "MLX", package: "mlx-swift")]))
}
