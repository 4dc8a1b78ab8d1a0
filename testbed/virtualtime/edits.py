"""The changes that virtual time needs in the kernel's source, as data, and their application."""

from dataclasses import dataclass
from pathlib import Path

from testbed.errors import MachineError

SEED_VARIABLE = "CLIQUENET_SEED"


@dataclass(frozen=True)
class SourceEdit:
    """One change: a text that stands exactly once in a file, and what replaces it.

    Attributes
    ----------
    path
        File below the source tree.
    anchor, replacement
        Text before and after.
    """

    path: str
    anchor: str
    replacement: str


# The guest's only source of randomness becomes a function of the seed (splitmix64,
# Steele, Lea and Flood, OOPSLA 2014).
_SEEDED_RANDOM = """\
	static unsigned long long state;
	static int seeded;
	unsigned char *out = buf;
	const char *seed = getenv("CLIQUENET_SEED");
	size_t i;

	if (!seed)
		return getrandom(buf, len, flags);
	if (!seeded) {
		state = strtoull(seed, NULL, 10);
		seeded = 1;
	}
	for (i = 0; i < len; i++) {
		unsigned long long z = (state += 0x9e3779b97f4a7c15ULL);

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		out[i] = (z ^ (z >> 31)) & 0xff;
	}
	return len;
"""

# A page fault costs several ptrace stops on the host: take the 32 pages around it along.
_MAP_AHEAD = """\
#define MAP_AHEAD (32 * PAGE_SIZE)

static void map_ahead(struct vm_area_struct *vma, unsigned long address,
		      unsigned int flags)
{
	unsigned long block = round_down(address, MAP_AHEAD);
	unsigned long start = max(vma->vm_start, block);
	unsigned long end = min(vma->vm_end, block + MAP_AHEAD);
	unsigned long next;

	if (vma_is_anonymous(vma) && (flags & FAULT_FLAG_WRITE)) {
		start = address;
		for (next = address + PAGE_SIZE; next < end; next += PAGE_SIZE) {
			pmd_t *pmd = pmd_off(vma->vm_mm, next);

			if (pmd_present(*pmd)) {
				pte_t *pte = pte_offset_kernel(pmd, next);

				if (pte_present(*pte) && pte_write(*pte))
					continue;
			}
			if (handle_mm_fault(vma, next,
					    flags & (FAULT_FLAG_WRITE | FAULT_FLAG_USER), NULL))
				break;
		}
	}
	flush_tlb_range(vma, start, end);
}

"""
# netem's numbers come from a generator of its own: how many others draw from the kernel's
# depends on where things lie in memory, and so on the length of a path.
_NETEM_VERSION = '#define VERSION "1.3"\n'
_NETEM_RANDOM = """\

static u64 netem_state;

static u32 netem_random(void)
{
	u64 z = (netem_state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) >> 32;
}
#define get_random_u32 netem_random
"""
_NETEM_LOADED = '\tpr_info("netem: version " VERSION "\\n");\n'
# Without swap, a guest short of memory would give up and read again the pages of the programs
# that it runs, for ever: below an eighth of the memory, or 128 MB, files' pages stay, and the
# kernel ends whoever needs most.
_NO_SWAP = """\
	if (!sc->may_swap || !can_reclaim_anon_pages(memcg, pgdat->node_id, sc)) {
"""
_KEEP_FILES = """\
		unsigned long kept = min(totalram_pages() / 8, (128UL << 20) >> PAGE_SHIFT);

		if (global_node_page_state(NR_ACTIVE_FILE) +
		    global_node_page_state(NR_INACTIVE_FILE) < kept) {
			for_each_evictable_lru(lru)
				nr[lru] = 0;
			return;
		}
"""
_BEFORE_FAULTS = """\
/*
 * Note this is constrained to return 0, -EFAULT, -EACCES, -ENOMEM by
"""

EDITS: tuple[SourceEdit, ...] = (
    SourceEdit(
        "arch/um/os-Linux/util.c",
        "\treturn getrandom(buf, len, flags);\n",
        _SEEDED_RANDOM,
    ),
    # Interrupts from the host arrive in wall time: their timing must not stir the pool.
    SourceEdit(
        "kernel/irq/handle.c",
        "\tadd_interrupt_randomness(desc->irq_data.irq);\n",
        "",
    ),
    SourceEdit("net/sched/sch_netem.c", _NETEM_VERSION, _NETEM_VERSION + _NETEM_RANDOM),
    SourceEdit(
        "net/sched/sch_netem.c",
        _NETEM_LOADED,
        "\tnetem_state = get_random_u64();\n" + _NETEM_LOADED,
    ),
    # A guest process whose tracer dies would run on, on the host: it dies with it instead.
    SourceEdit(
        "arch/um/os-Linux/skas/process.c",
        "(void *) PTRACE_O_TRACESYSGOOD)",
        "(void *) (PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))",
    ),
    SourceEdit(
        "arch/um/os-Linux/skas/process.c",
        "(void *)PTRACE_O_TRACESYSGOOD)",
        "(void *) (PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))",
    ),
    SourceEdit("mm/vmscan.c", _NO_SWAP, _NO_SWAP + _KEEP_FILES),
    SourceEdit("arch/um/kernel/trap.c", _BEFORE_FAULTS, _MAP_AHEAD + _BEFORE_FAULTS),
    SourceEdit(
        "arch/um/kernel/trap.c",
        "\tflush_tlb_page(vma, address);\n",
        "\tmap_ahead(vma, address & PAGE_MASK, flags);\n",
    ),
    # Time in steps of 1 ns instead of 256 and 500: each hop would round by as much.
    SourceEdit(
        "arch/um/include/linux/time-internal.h",
        "#define TIMER_MULTIPLIER 256\n",
        "#define TIMER_MULTIPLIER 1\n",
    ),
    SourceEdit(
        "arch/um/include/linux/time-internal.h",
        "#define TIMER_MIN_DELTA  500\n",
        "#define TIMER_MIN_DELTA  1\n",
    ),
)


def apply_edits(tree: Path, edits: tuple[SourceEdit, ...] = EDITS) -> None:
    """Change the source tree in place.

    Parameters
    ----------
    tree
        Unpacked kernel source.
    edits
        What to change; each anchor is looked up after the edits before it.

    Raises
    ------
    MachineError
        A file is missing, or an anchor does not stand exactly once in it: this source is
        of a version that the edits do not fit.
    """
    for edit in edits:
        file = tree / edit.path
        try:
            text = file.read_text()
        except OSError as error:
            raise MachineError(f"the kernel source has no {edit.path}: {error.strerror}") from error
        found = text.count(edit.anchor)
        if found != 1:
            raise MachineError(
                f"this kernel source does not fit: `{edit.anchor.strip()}` stands {found} times "
                f"in {edit.path}, not once; install linux-source-6.1"
            )
        file.write_text(text.replace(edit.anchor, edit.replacement))
