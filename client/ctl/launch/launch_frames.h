// LaunchFrames (launch.proto) over a pair of pipes to or from ssh, without waiting.
//
// A reader first looks for kFramesBegin, because the user's shell may print something when it
// starts. A frame that is too long or is no message ends the reading for good.
//
// Owner: ssh_host, launch_agent. Thread: main. Memory: a frame that is not complete, and output
// that waits to be written; callers that add to it check pending().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mlxcomm/v1/launch.pb.h"

namespace mlxcomm::ctl {

inline constexpr std::string_view kFramesBegin = "mlxcommctl launch, frames 1\n";
inline constexpr std::size_t kLaunchFrameBytesMax = std::size_t{1} << 20;
// At most this much of a stream is put into one frame, and at most this much input is under way.
inline constexpr std::size_t kLaunchPieceBytes = 32 * 1024;
inline constexpr std::size_t kLaunchInputBytesMax = 256 * 1024;

class FrameReader {
 public:
  // `noise_first`: text comes before the first frame; TakeNoise returns each line of it once.
  explicit FrameReader(bool noise_first) : begun_(!noise_first) {}

  // Reads what is available. False: the end, or an error.
  bool ReadFrom(int descriptor);
  void Add(std::string_view bytes);
  bool Take(v1::LaunchFrame& frame);
  bool TakeNoise(std::string& line);
  // Why nothing can be parsed any more; empty: all is well.
  const std::string& error() const { return error_; }

 private:
  std::size_t left() const { return bytes_.size() - taken_; }

  bool begun_;
  std::string bytes_;
  std::size_t taken_ = 0;  // Of them; dropped when more come.
  std::size_t noise_bytes_ = 0;
  std::string error_;
};

class FrameWriter {
 public:
  void Begin() { bytes_.append(kFramesBegin); }
  void Add(const v1::LaunchFrame& frame);
  // False: the reader has gone.
  bool WriteTo(int descriptor);
  std::size_t pending() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace mlxcomm::ctl
