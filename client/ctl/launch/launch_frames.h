// Non-blocking LaunchFrames (launch.proto) over pipes to and from ssh.
//
// A reader first looks for kFramesBegin, because the user's shell may print something when it
// starts. After a frame that is too long or invalid it reads no more.
//
// Owner: ssh_host, launch_agent. Thread: main. Memory: an incomplete frame, and unwritten output,
// which callers bound by pending().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mlxcomm/v1/launch.pb.h"

namespace mlxcomm::ctl {

inline constexpr std::string_view kFramesBegin = "mlxcommctl launch, frames 1\n";
inline constexpr std::size_t kLaunchFrameBytesMax = std::size_t{1} << 20;
inline constexpr std::size_t kLaunchChunkBytes = 32 * 1024;      // The most in one frame.
inline constexpr std::size_t kLaunchInputBytesMax = 256 * 1024;  // Sent and not yet read by ranks.

class FrameReader {
 public:
  // `noise_first`: text may come before the first frame; TakeNoise returns its lines.
  explicit FrameReader(bool noise_first) : begun_(!noise_first) {}

  // Reads what is available. False at end of file, or after an error.
  bool ReadFrom(int descriptor);
  void Add(std::string_view bytes);
  bool Take(v1::LaunchFrame& frame);
  bool TakeNoise(std::string& line);
  // Why it has stopped parsing; empty: it has not.
  const std::string& error() const { return error_; }

 private:
  std::size_t left() const { return bytes_.size() - taken_; }

  bool begun_;
  std::string bytes_;
  std::size_t taken_ = 0;  // Parsed; dropped when more arrive.
  std::size_t noise_bytes_ = 0;
  std::string error_;
};

class FrameWriter {
 public:
  void Begin() { bytes_.append(kFramesBegin); }
  void Add(const v1::LaunchFrame& frame);
  // False if the reader is gone.
  bool WriteTo(int descriptor);
  std::size_t pending() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace mlxcomm::ctl
