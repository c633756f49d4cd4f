#include "client/ctl/launch/launch_frames.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kNoiseBytesMax = 256 * 1024;
constexpr int kReadsMax = 16;
constexpr char kEndlessNoise[] = "its shell printed more than 256 KiB before mlxcommctl started";

}  // namespace

void FrameReader::Add(std::string_view bytes) {
  bytes_.erase(0, taken_);
  taken_ = 0;
  bytes_.append(bytes);
}

bool FrameReader::ReadFrom(int descriptor) {
  std::array<char, 65536> bytes;
  for (int reads = 0; reads < kReadsMax && left() <= 2 * kLaunchFrameBytesMax; ++reads) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got > 0) {
      Add({bytes.data(), static_cast<std::size_t>(got)});
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;
    } else {
      break;
    }
  }
  return true;
}

bool FrameReader::TakeNoise(std::string& line) {
  if (begun_ || !error_.empty()) return false;
  const std::size_t end = bytes_.find('\n', taken_);
  if (end == std::string::npos) {
    if (left() > kNoiseBytesMax) error_ = kEndlessNoise;
    return false;
  }
  line = bytes_.substr(taken_, end + 1 - taken_);
  taken_ = end + 1;
  // The shell's last output may lack a line end.
  begun_ = line.ends_with(kFramesBegin);
  if (begun_) line.resize(line.size() - kFramesBegin.size());
  if (line.ends_with('\n')) line.pop_back();
  noise_bytes_ += line.size();
  if (noise_bytes_ > kNoiseBytesMax) error_ = kEndlessNoise;
  return !line.empty() || !begun_;
}

bool FrameReader::Take(v1::LaunchFrame& frame) {
  if (!begun_ || !error_.empty() || left() < kHeaderBytes) return false;
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    length = length << 8 | static_cast<unsigned char>(bytes_[taken_ + i]);
  }
  if (length > kLaunchFrameBytesMax) {
    error_ = "a frame of " + std::to_string(length) + " bytes, expected at most " +
             std::to_string(kLaunchFrameBytesMax);
    return false;
  }
  if (left() < kHeaderBytes + length) return false;
  if (!frame.ParseFromArray(bytes_.data() + taken_ + kHeaderBytes, static_cast<int>(length))) {
    error_ = "an invalid frame";
    return false;
  }
  taken_ += kHeaderBytes + length;
  return true;
}

void FrameWriter::Add(const v1::LaunchFrame& frame) {
  const std::string body = frame.SerializeAsString();
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes_.push_back(static_cast<char>(body.size() >> shift & 0xff));
  }
  bytes_.append(body);
}

bool FrameWriter::WriteTo(int descriptor) {
  std::size_t done = 0;
  bool open = true;
  while (done < bytes_.size()) {
    const ssize_t written = ::write(descriptor, bytes_.data() + done, bytes_.size() - done);
    if (written > 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      open = errno == EAGAIN;
      break;
    }
  }
  bytes_.erase(0, done);
  return open;
}

}  // namespace mlxcomm::ctl
