#include "daemon/record/rail_recorder.h"

namespace mlxcomm {
namespace {

class RecordedRail final : public rail::RailObserver {
 public:
  RecordedRail(record::FlightRecorder& recorder, record::EventRing& track)
      : recorder_(recorder), track_(track) {}
  ~RecordedRail() override { recorder_.CloseTrack(&track_); }

  void OnSent(const wire::FrameHeader& header, std::uint64_t begin_ns,
              std::uint64_t end_ns) override {
    Record(record::EventKind::kSent, header, begin_ns, end_ns);
  }
  void OnReceived(const wire::FrameHeader& header, std::uint64_t begin_ns,
                  std::uint64_t end_ns) override {
    Record(record::EventKind::kReceived, header, begin_ns, end_ns);
  }

 private:
  void Record(record::EventKind kind, const wire::FrameHeader& header, std::uint64_t begin_ns,
              std::uint64_t end_ns) {
    if (header.type != wire::FrameType::kEager && header.type != wire::FrameType::kData) return;
    track_.Write({.time_ns = begin_ns,
                  .duration_ns = end_ns - begin_ns,
                  .bytes = header.payload_bytes,
                  .group = header.group,
                  .number = header.number,
                  .source_rank = header.source_rank,
                  .destination_rank = header.destination_rank,
                  .tag = header.tag,
                  .kind = kind,
                  .step = header.step});
  }

  record::FlightRecorder& recorder_;
  record::EventRing& track_;
};

}  // namespace

std::unique_ptr<rail::RailObserver> RecordRail(record::FlightRecorder& recorder,
                                               const std::string& name) {
  record::EventRing* const track = recorder.AddTrack(record::TrackKind::kRail, name);
  if (track == nullptr) return nullptr;
  return std::make_unique<RecordedRail>(recorder, *track);
}

}  // namespace mlxcomm
