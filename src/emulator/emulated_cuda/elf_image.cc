#include "emulator/emulated_cuda/elf_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

namespace lambent::emulated_cuda {

namespace {

constexpr uint64_t kMostSpan = uint64_t{1} << 30;
constexpr uint64_t kMostThreadLocal = uint64_t{64} << 20;
constexpr uint64_t kPage = 4096;
constexpr size_t kMostSymbols = size_t{1} << 20;

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
constexpr uint32_t kRelative = R_X86_64_RELATIVE, kIndirect = R_X86_64_IRELATIVE;
constexpr uint32_t kPlain[] = {R_X86_64_NONE,      R_X86_64_64,       R_X86_64_GLOB_DAT,
                               R_X86_64_JUMP_SLOT, R_X86_64_DTPMOD64, R_X86_64_DTPOFF64,
                               R_X86_64_TPOFF64};
constexpr uint32_t kDescriptor = R_X86_64_TLSDESC;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
constexpr uint32_t kRelative = R_AARCH64_RELATIVE, kIndirect = R_AARCH64_IRELATIVE;
constexpr uint32_t kPlain[] = {R_AARCH64_NONE,      R_AARCH64_ABS64,      R_AARCH64_GLOB_DAT,
                               R_AARCH64_JUMP_SLOT, R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_DTPREL,
                               R_AARCH64_TLS_TPREL};
constexpr uint32_t kDescriptor = R_AARCH64_TLSDESC;
#endif

class Reader {
 public:
  Reader(std::string_view bytes, std::string* error) : bytes_(bytes), error_(error) {}

  bool read(std::vector<ElfSymbol>* symbols) {
    return headers() && dynamic() && symbol_table() && versions() && relocations() &&
           functions_to_call() && exports(symbols);
  }

 private:
  bool fail(const char* what) {
    *error_ = std::string("damaged ELF file: ") + what;
    return false;
  }

  template <class T>
  bool at(uint64_t offset, T* value) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) return false;
    std::memcpy(value, bytes_.data() + offset, sizeof(T));
    return true;
  }

  // The segment that holds [address, address + size), in memory or, if `in_file`, in the file.
  const Elf64_Phdr* segment(uint64_t address, uint64_t size, bool in_file, uint32_t flags) const {
    for (const Elf64_Phdr& load : loads_) {
      uint64_t length = in_file ? load.p_filesz : load.p_memsz;
      if (address < load.p_vaddr || address - load.p_vaddr > length) continue;
      if (size > length - (address - load.p_vaddr)) continue;
      if ((load.p_flags & flags) == flags) return &load;
    }
    return nullptr;
  }
  template <class T>
  bool load(uint64_t address, T* value) const {
    const Elf64_Phdr* load = segment(address, sizeof(T), true, PF_R);
    return load && at(load->p_offset + (address - load->p_vaddr), value);
  }
  bool executable(uint64_t address) const { return segment(address, 1, true, PF_X); }
  std::optional<uint64_t> value_of(int64_t tag) const {
    auto it = dynamic_.find(tag);
    if (it == dynamic_.end()) return std::nullopt;
    return it->second;
  }
  bool is_string(uint64_t offset) const { return offset < string_bytes_; }

  bool headers() {
    if (!at(0, &header_)) return fail("shorter than its header");
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_ident[EI_VERSION] != EV_CURRENT || header_.e_version != EV_CURRENT ||
        header_.e_machine != kMachine || header_.e_type != ET_DYN) {
      return fail("no shared object for this processor");
    }
    if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum == 0 || header_.e_phnum > 64) {
      return fail("program headers");
    }
    for (unsigned i = 0; i < header_.e_phnum; i++) {
      Elf64_Phdr entry;
      if (!at(header_.e_phoff + uint64_t{i} * sizeof entry, &entry)) {
        return fail("program headers lie outside of it");
      }
      if (!program_header(entry)) return false;
    }
    if (loads_.empty() || !has_dynamic_) return fail("no segments");
    return parts_lie_in_segments();
  }

  bool program_header(const Elf64_Phdr& entry) {
    switch (entry.p_type) {
      case PT_LOAD:
        if (entry.p_filesz > entry.p_memsz || entry.p_offset > bytes_.size() ||
            entry.p_filesz > bytes_.size() - entry.p_offset || entry.p_vaddr > kMostSpan ||
            entry.p_memsz > kMostSpan - entry.p_vaddr || entry.p_memsz == 0) {
          return fail("a segment lies outside of it");
        }
        if (entry.p_align < kPage || entry.p_align > (1 << 21) ||
            (entry.p_align & (entry.p_align - 1)) ||
            (entry.p_vaddr ^ entry.p_offset) & (entry.p_align - 1)) {
          return fail("alignment of a segment");
        }
        if ((entry.p_flags & PF_W) && (entry.p_flags & PF_X)) return fail("writable code");
        if (!loads_.empty()) {
          uint64_t end = loads_.back().p_vaddr + loads_.back().p_memsz;
          if (entry.p_vaddr / kPage < (end + kPage - 1) / kPage) return fail("segments overlap");
        }
        loads_.push_back(entry);
        return true;
      case PT_DYNAMIC:
        if (has_dynamic_) return fail("two dynamic sections");
        has_dynamic_ = true;
        dynamic_segment_ = entry;
        return true;
      case PT_TLS:
        if (has_tls_ || entry.p_memsz > kMostThreadLocal || entry.p_filesz > entry.p_memsz ||
            entry.p_align > kPage || (entry.p_align & (entry.p_align - 1))) {
          return fail("thread-local segment");
        }
        has_tls_ = true;
        tls_ = entry;
        return true;
      case PT_GNU_STACK:
        return entry.p_flags & PF_X ? fail("asks for an executable stack") : true;
      case PT_INTERP:
      case PT_SHLIB:
        return fail("a program, not a shared object");
      default:
        others_.push_back(entry);
        return true;
    }
  }

  // What the loader reads through the program headers lies in what it has mapped.
  bool parts_lie_in_segments() {
    if (!segment(dynamic_segment_.p_vaddr, dynamic_segment_.p_memsz, true, PF_R | PF_W)) {
      return fail("dynamic section");
    }
    if (has_tls_ && tls_.p_filesz > 0 && !segment(tls_.p_vaddr, tls_.p_filesz, true, PF_R)) {
      return fail("thread-local segment");
    }
    for (const Elf64_Phdr& entry : others_) {
      bool read = entry.p_type == PT_NOTE || entry.p_type == PT_GNU_PROPERTY;
      if (read && !segment(entry.p_vaddr, entry.p_memsz, true, PF_R)) return fail("a note");
      if (entry.p_type == PT_GNU_RELRO && !segment(entry.p_vaddr, 0, false, PF_R | PF_W)) {
        return fail("read-only part");
      }
      if (entry.p_type == PT_GNU_RELRO && entry.p_memsz > kMostSpan) return fail("read-only part");
      if (entry.p_type == PT_PHDR && entry.p_vaddr != header_.e_phoff)
        return fail("header address");
    }
    return true;
  }

  bool dynamic() {
    bool ended = false;
    for (uint64_t i = 0; !ended && i < dynamic_segment_.p_memsz / sizeof(Elf64_Dyn); i++) {
      Elf64_Dyn entry;
      if (!load(dynamic_segment_.p_vaddr + i * sizeof entry, &entry)) break;
      if (entry.d_tag == DT_NULL) {
        ended = true;
      } else if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_SONAME) {
        names_.push_back(entry.d_un.d_val);
      } else if (!dynamic_.emplace(entry.d_tag, entry.d_un.d_val).second) {
        return fail("a dynamic entry stands twice");
      }
    }
    if (!ended) return fail("dynamic section has no end");
    for (int64_t refused : {DT_TEXTREL, DT_AUDIT, DT_DEPAUDIT, DT_CONFIG, DT_FILTER, DT_AUXILIARY,
                            DT_PREINIT_ARRAY, DT_REL}) {
      if (value_of(refused)) return fail("a dynamic entry that modules do not have");
    }
    if (value_of(DT_FLAGS).value_or(0) & DF_TEXTREL) return fail("dynamic flags");
    auto strings = value_of(DT_STRTAB), size = value_of(DT_STRSZ);
    if (!strings || !size || *size == 0) return fail("no string table");
    const Elf64_Phdr* where = segment(*strings, *size, true, PF_R);
    if (!where) return fail("string table");
    strings_ = bytes_.data() + where->p_offset + (*strings - where->p_vaddr);
    string_bytes_ = *size;
    if (strings_[string_bytes_ - 1] != '\0') return fail("string table has no end");
    for (int64_t tag : {DT_RUNPATH, DT_RPATH}) {
      if (auto path = value_of(tag)) names_.push_back(*path);
    }
    for (uint64_t name : names_) {
      if (!is_string(name)) return fail("a name");
    }
    for (int64_t tag : {DT_PLTGOT, DT_INIT_ARRAY, DT_FINI_ARRAY}) {
      if (auto address = value_of(tag); address && !segment(*address, 0, false, PF_R)) {
        return fail("a table");
      }
    }
    return true;
  }

  bool symbol_table() {
    auto table = value_of(DT_SYMTAB);
    if (!table || value_of(DT_SYMENT) != sizeof(Elf64_Sym)) return fail("no symbol table");
    if (!count_symbols()) return fail("hash table");
    if (symbol_count_ > kMostSymbols ||
        !segment(*table, symbol_count_ * sizeof(Elf64_Sym), true, PF_R)) {
      return fail("symbol table");
    }
    for (uint64_t i = 0; i < symbol_count_; i++) {
      Elf64_Sym symbol;
      if (!load(*table + i * sizeof symbol, &symbol)) return fail("symbol table");
      if (!is_string(symbol.st_name)) return fail("name of a symbol");
      if (symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS && !defined_well(symbol)) {
        return fail("address of a symbol");
      }
      if (i > 0 && symbol.st_shndx == SHN_UNDEF && binds_locally(symbol)) {
        return fail("address of a symbol");
      }
      symbols_.push_back(symbol);
    }
    return true;
  }

  // The loader takes the value of such a symbol, defined or not, for a place in the object.
  static bool binds_locally(const Elf64_Sym& symbol) {
    const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
    return ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || visibility == STV_HIDDEN ||
           visibility == STV_INTERNAL;
  }

  bool defined_well(const Elf64_Sym& symbol) const {
    switch (ELF64_ST_TYPE(symbol.st_info)) {
      case STT_TLS:
        return has_tls_ && symbol.st_value <= tls_.p_memsz &&
               symbol.st_size <= tls_.p_memsz - symbol.st_value;
      case STT_GNU_IFUNC:
      case STT_FUNC:
        return executable(symbol.st_value);
      case STT_OBJECT:
        return segment(symbol.st_value, symbol.st_size, false, PF_R);
      default:
        // It may be a function: code that begins an object calls those that are there and that no
        // type tells. None stands in the header.
        return symbol.st_value >= sizeof(Elf64_Ehdr) && segment(symbol.st_value, 0, false, 0);
    }
  }

  // The loader finds names through hash tables, and only they tell how many symbols there are.
  bool count_symbols() {
    bool counted = false;
    if (auto table = value_of(DT_HASH)) {
      uint32_t buckets, chains;
      if (!load(*table, &buckets) || !load(*table + 4, &chains)) return false;
      if (buckets == 0 || chains > kMostSymbols || buckets > kMostSymbols) return false;
      // Chains must come to an end: no symbol is in two of them, nor twice in one.
      uint64_t seen = 0;
      for (uint64_t i = 0; i < buckets; i++) {
        uint32_t symbol;
        if (!load(*table + 8 + i * 4, &symbol)) return false;
        for (; symbol != 0; seen++) {
          if (symbol >= chains || seen > chains) return false;
          if (!load(*table + 8 + (uint64_t{buckets} + symbol) * 4, &symbol)) return false;
        }
      }
      symbol_count_ = chains;
      counted = true;
    }
    if (auto table = value_of(DT_GNU_HASH)) return count_gnu(*table, counted);
    return counted;
  }

  bool count_gnu(uint64_t table, bool counted) {
    uint32_t head[4];  // buckets, first symbol, words of the filter, shift
    for (int i = 0; i < 4; i++) {
      if (!load(table + 4 * static_cast<uint64_t>(i), &head[i])) return false;
    }
    if (head[0] == 0 || head[0] > kMostSymbols || head[1] > kMostSymbols || head[2] == 0 ||
        head[2] > kMostSymbols || (head[2] & (head[2] - 1)) || head[3] > 63) {
      return false;
    }
    uint64_t buckets = table + 16 + uint64_t{head[2]} * 8, chains = buckets + uint64_t{head[0]} * 4;
    if (!segment(table, chains - table, true, PF_R)) return false;
    uint64_t last = 0;
    for (uint32_t i = 0; i < head[0]; i++) {
      uint32_t first;
      if (!load(buckets + uint64_t{i} * 4, &first)) return false;
      if (first != 0 && (first < head[1] || first > kMostSymbols)) return false;
      last = std::max<uint64_t>(last, first);
    }
    uint64_t count = head[1];
    for (uint64_t symbol = last; last != 0; symbol++) {
      uint32_t hash;
      if (symbol > kMostSymbols || !load(chains + (symbol - head[1]) * 4, &hash)) return false;
      count = symbol + 1;
      if (hash & 1) break;
    }
    if (counted) return count <= symbol_count_;
    symbol_count_ = count;
    return true;
  }

  bool versions() {
    uint64_t most = 1;
    if (!version_list(DT_VERNEED, DT_VERNEEDNUM, true, &most)) return fail("needed versions");
    if (!version_list(DT_VERDEF, DT_VERDEFNUM, false, &most)) return fail("defined versions");
    if (auto table = value_of(DT_VERSYM)) {
      for (uint64_t i = 0; i < symbol_count_; i++) {
        uint16_t version;
        if (!load(*table + i * 2, &version) || (version & 0x7fff) > most) {
          return fail("version of a symbol");
        }
      }
    }
    return true;
  }

  bool version_list(int64_t tag, int64_t count_tag, bool needed, uint64_t* most) const {
    auto table = value_of(tag);
    if (!table) return true;
    uint64_t at = *table, count = value_of(count_tag).value_or(0);
    if (count > 1024) return false;
    for (uint64_t i = 0; i < count; i++) {
      uint32_t next, first;
      uint16_t entries;
      if (needed) {
        Elf64_Verneed entry;
        if (!load(at, &entry) || entry.vn_version != 1 || !is_string(entry.vn_file)) return false;
        next = entry.vn_next, first = entry.vn_aux, entries = entry.vn_cnt;
      } else {
        Elf64_Verdef entry;
        if (!load(at, &entry) || entry.vd_version != 1) return false;
        next = entry.vd_next, first = entry.vd_aux, entries = entry.vd_cnt;
        *most = std::max<uint64_t>(*most, entry.vd_ndx & 0x7fff);
      }
      if (!version_names(at + first, entries, needed, most)) return false;
      // The loader follows `next` until it is 0.
      if ((next == 0) != (i + 1 == count)) return false;
      at += next;
    }
    return count > 0;
  }

  bool version_names(uint64_t at, unsigned count, bool needed, uint64_t* most) const {
    if (count == 0) return false;
    for (unsigned i = 0; i < count; i++) {
      uint32_t next;
      if (needed) {
        Elf64_Vernaux name;
        if (!load(at, &name) || !is_string(name.vna_name)) return false;
        *most = std::max<uint64_t>(*most, name.vna_other & 0x7fff);
        next = name.vna_next;
      } else {
        Elf64_Verdaux name;
        if (!load(at, &name) || !is_string(name.vda_name)) return false;
        next = name.vda_next;
      }
      if ((next == 0) != (i + 1 == count)) return false;
      at += next;
    }
    return true;
  }

  bool relocations() {
    if (value_of(DT_RELA) && value_of(DT_RELAENT) != sizeof(Elf64_Rela)) {
      return fail("relocations");
    }
    if (value_of(DT_JMPREL) && value_of(DT_PLTREL) != DT_RELA) return fail("relocations");
    if (value_of(DT_RELACOUNT).value_or(0) > value_of(DT_RELASZ).value_or(0) / sizeof(Elf64_Rela)) {
      return fail("relocations");
    }
    if (value_of(DT_RELR)) return fail("packed relocations, which modules do not have");
    return relocation_table(DT_RELA, DT_RELASZ) && relocation_table(DT_JMPREL, DT_PLTRELSZ);
  }

  bool relocation_table(int64_t tag, int64_t size_tag) {
    auto table = value_of(tag);
    if (!table) return true;
    uint64_t size = value_of(size_tag).value_or(0);
    if (size % sizeof(Elf64_Rela) || !segment(*table, size, true, PF_R)) return fail("relocations");
    uint64_t relative = tag == DT_RELA ? value_of(DT_RELACOUNT).value_or(0) : 0;
    for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); i++) {
      Elf64_Rela entry;
      if (!load(*table + i * sizeof entry, &entry)) return fail("relocations");
      uint32_t type = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
      uint64_t symbol = ELF64_R_SYM(entry.r_info);
      bool plain = std::find(std::begin(kPlain), std::end(kPlain), type) != std::end(kPlain);
      if (!plain && type != kRelative && type != kIndirect && type != kDescriptor) {
        return fail("kind of a relocation");
      }
      if (i < relative && type != kRelative) return fail("order of the relocations");
      if (symbol >= symbol_count_) return fail("symbol of a relocation");
      const uint64_t width = type == kDescriptor ? 16 : 8;
      if (type != 0 && !segment(entry.r_offset, width, false, PF_R | PF_W)) {
        return fail("a relocation writes outside");
      }
      // The dynamic section itself was read before; nothing may change it.
      if (type != 0 && entry.r_offset + width > dynamic_segment_.p_vaddr &&
          entry.r_offset < dynamic_segment_.p_vaddr + dynamic_segment_.p_memsz) {
        return fail("a relocation changes the dynamic section");
      }
      auto target = static_cast<uint64_t>(entry.r_addend);
      if (type == kIndirect && !executable(target)) return fail("an indirect relocation");
      if (type == kRelative) relative_[entry.r_offset] = target;
    }
    return true;
  }

  // What the loader calls when it loads and unloads the object is code of the object.
  bool functions_to_call() {
    for (int64_t tag : {DT_INIT, DT_FINI}) {
      if (auto address = value_of(tag); address && !executable(*address)) {
        return fail("address of its first or last function");
      }
    }
    const int64_t arrays[][2] = {{DT_INIT_ARRAY, DT_INIT_ARRAYSZ},
                                 {DT_FINI_ARRAY, DT_FINI_ARRAYSZ}};
    for (const auto& [tag, size_tag] : arrays) {
      uint64_t size = value_of(size_tag).value_or(0);
      auto array = value_of(tag);
      if ((size > 0 && !array) || size % 8 || size > 1 << 20) return fail("its first functions");
      for (uint64_t i = 0; i < size; i += 8) {
        auto it = relative_.find(*array + i);
        if (it == relative_.end() || !executable(it->second)) return fail("its first functions");
      }
    }
    return true;
  }

  bool exports(std::vector<ElfSymbol>* out) {
    const unsigned managed = managed_section();
    for (const Elf64_Sym& symbol : symbols_) {
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || symbol.st_name == 0) {
        continue;
      }
      out->push_back({std::string_view(strings_ + symbol.st_name), symbol.st_size,
                      ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT,
                      managed != 0 && symbol.st_shndx == managed});
    }
    return true;
  }

  // Sections are for tools: without them, or with damaged ones, nothing is managed.
  unsigned managed_section() const {
    Elf64_Shdr names;
    if (header_.e_shentsize != sizeof names ||
        !at(header_.e_shoff + uint64_t{header_.e_shstrndx} * sizeof names, &names)) {
      return 0;
    }
    const std::string_view wanted(kManagedSection, std::strlen(kManagedSection) + 1);
    for (unsigned i = 1; i < header_.e_shnum; i++) {
      Elf64_Shdr section;
      if (!at(header_.e_shoff + uint64_t{i} * sizeof section, &section)) return 0;
      uint64_t name = names.sh_offset + section.sh_name;
      if (name < bytes_.size() && bytes_.substr(name, wanted.size()) == wanted) return i;
    }
    return 0;
  }

  std::string_view bytes_;
  std::string* error_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> loads_, others_;
  Elf64_Phdr dynamic_segment_{}, tls_{};
  bool has_dynamic_ = false, has_tls_ = false;
  std::map<int64_t, uint64_t> dynamic_;
  std::vector<uint64_t> names_;
  const char* strings_ = nullptr;
  uint64_t string_bytes_ = 0;
  uint64_t symbol_count_ = 0;
  std::vector<Elf64_Sym> symbols_;
  std::map<uint64_t, uint64_t> relative_;  // address of a pointer, and what it will point at
};

}  // namespace

bool read_elf(std::string_view bytes, std::vector<ElfSymbol>* symbols, std::string* error) {
  symbols->clear();
  return Reader(bytes, error).read(symbols);
}

}  // namespace lambent::emulated_cuda
