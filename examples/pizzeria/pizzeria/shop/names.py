"""The people who eat here: first and last names that clients are made of. Nothing else."""

FIRST_NAMES = (
    "Ada", "Agnes", "Alba", "Amara", "Anton", "Aylin", "Bea", "Benno", "Bruno", "Carla",
    "Chiara", "Cyril", "Dana", "Dario", "Edda", "Elias", "Emil", "Enzo", "Farida", "Felix",
    "Fiona", "Gino", "Greta", "Hana", "Hugo", "Ida", "Ilse", "Ivo", "Jana", "Jonas",
    "Kaan", "Karim", "Klara", "Lena", "Leo", "Lior", "Luca", "Mara", "Mateo", "Mila",
    "Nadia", "Nils", "Noor", "Olga", "Oskar", "Paula", "Pavel", "Quirin", "Rana", "Remo",
    "Rosa", "Samir", "Selma", "Siri", "Tariq", "Theo", "Uma", "Vera", "Yuki", "Zoé",
)  # fmt: skip
LAST_NAMES = (
    "Abel", "Adler", "Almeida", "Bauer", "Bellini", "Berg", "Bianchi", "Brandt", "Castro",
    "Cohen", "Costa", "Dahl", "Demir", "Dupont", "Eriksen", "Esposito", "Farkas", "Ferrari",
    "Fischer", "Fontana", "Gallo", "Garcia", "Greco", "Haas", "Hansen", "Horvat", "Ito",
    "Ivanova", "Jansen", "Kaya", "Keller", "Kowalski", "Krüger", "Lang", "Leone", "Lopez",
    "Lund", "Marino", "Meyer", "Moretti", "Nagy", "Novak", "O'Brien", "Okafor", "Olsen",
    "Pérez", "Petrov", "Ricci", "Rossi", "Sato", "Schmidt", "Silva", "Singh", "Tanaka",
    "Torres", "Varga", "Vitale", "Weber", "Yilmaz", "Zeller",
)  # fmt: skip
