#include "daemon/transport/tcp/socket_watch.h"

namespace mlxcomm::fabric {
namespace {

template <typename Type>
struct PlaceAllocator {
  using value_type = Type;
  explicit PlaceAllocator(std::shared_ptr<HandlerPlaces> to) : places(std::move(to)) {}
  template <typename Other>
  PlaceAllocator(const PlaceAllocator<Other>& other) : places(other.places) {}
  Type* allocate(std::size_t count) {
    return static_cast<Type*>(places->Take(sizeof(Type) * count));
  }
  void deallocate(Type* memory, std::size_t) { places->GiveBack(memory); }
  template <typename Other>
  bool operator==(const PlaceAllocator<Other>& other) const {
    return places == other.places;
  }
  std::shared_ptr<HandlerPlaces> places;
};

template <typename Function>
struct PlacedHandler {
  using allocator_type = PlaceAllocator<void*>;
  allocator_type get_allocator() const { return allocator_type(places); }
  void operator()(const asio::error_code& error) const { function(error); }
  std::shared_ptr<HandlerPlaces> places;
  Function function;
};

}  // namespace

bool SocketWatch::Open(int socket) {
  if (retired_) return false;
  asio::error_code error;
  descriptor_.assign(socket, error);
  if (error) return false;
  open_ = true;
  ++number_;
  return true;
}

void SocketWatch::Close() {
  armed_ = false;
  armed_for_writing_ = false;
  ready_ = false;
  if (std::exchange(open_, false)) descriptor_.release();
}

void SocketWatch::Arm() {
  if (!open_ || std::exchange(armed_, true)) return;
  auto heard = [this, number = number_](const asio::error_code&) {
    if (!open_ || number != number_) return;
    armed_ = false;
    ready_ = true;  // Also for an error: the reader learns of it.
  };
  descriptor_.async_wait(asio::posix::descriptor_base::wait_read,
                         PlacedHandler<decltype(heard)>{places_, heard});
}

void SocketWatch::ArmForWriting() {
  if (!open_ || std::exchange(armed_for_writing_, true)) return;
  auto heard = [this, number = number_](const asio::error_code&) {
    if (!open_ || number != number_) return;
    armed_for_writing_ = false;
    ready_ = true;
  };
  descriptor_.async_wait(asio::posix::descriptor_base::wait_write,
                         PlacedHandler<decltype(heard)>{places_, heard});
}

SocketWatches::Handle SocketWatches::Take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<SocketWatch>(io_));
    free_.push_back(all_.back().get());
    free_.reserve(all_.size());
    all_.back()->retired_ = retired_;
  }
  SocketWatch* const watch = free_.back();
  free_.pop_back();
  return Handle(watch, GiveBack{this});
}

void SocketWatches::TakeBack(SocketWatch& watch) {
  watch.Close();
  free_.push_back(&watch);
}

void SocketWatches::Retire() {
  retired_ = true;
  for (const auto& watch : all_) {
    watch->Close();
    watch->retired_ = true;
  }
}

}  // namespace mlxcomm::fabric
