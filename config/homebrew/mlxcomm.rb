# Daemon, mlxcommctl, library and headers: brew install --formula ./config/homebrew/mlxcomm.rb --HEAD.
# pip installs the Python package. Both addresses are placeholders, because mlxcomm is not published yet.
class Mlxcomm < Formula
  desc "Collectives for MLX, run by a daemon that owns the connections"
  homepage "https://mlxcomm.invalid"
  license "MIT"
  head "https://mlxcomm.invalid/mlxcomm.git", branch: "main"

  depends_on "asio" => :build
  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "pkgconf" => :build
  depends_on "abseil"
  depends_on "grpc"
  depends_on "highway"
  depends_on "isa-l"
  depends_on "libnghttp2"
  depends_on "openssl@4"
  depends_on "prometheus-cpp"
  depends_on "protobuf"
  depends_on "spdlog"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build", "--component", "system"
    config = buildpath/"mlxcommd.textproto"
    config.write Utils.safe_popen_read(bin/"mlxcommd", "--print-config")
    (etc/"mlxcommd").install config
    (var/"log/mlxcommd").mkpath
  end

  # One user's service; with sudo the machine's, for all users.
  service do
    run [opt_bin/"mlxcommd", "--launchd", "--config", etc/"mlxcommd/mlxcommd.textproto"]
    keep_alive successful_exit: false
    log_path var/"log/mlxcommd/service.log"
    error_log_path var/"log/mlxcommd/service.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mlxcommctl --version") unless head?
    system bin/"mlxcommd", "--config", etc/"mlxcommd/mlxcommd.textproto", "--print-config"
  end
end
